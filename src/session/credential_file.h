#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tinker/result.h"
#include "tinker/secret.h"
#include "tinker/types/auth.h"

namespace tinker::session {

/// One key of the credential file.
struct KeyRecord {
  enum class Type {
    manual,     ///< Pasted in by its owner.
    generated,  ///< Made for the command line itself, by older ones only.
  };
  Type type = Type::manual;
  Secret key = {};
  std::string name = {};
  std::optional<std::string> note = {};       ///< Only of a manual key.
  std::optional<ApiKeyDetails> details = {};  ///< A generated key always has them.

  friend bool operator==(const KeyRecord&, const KeyRecord&) = default;
};

/// The stored keys (R3.13), as the official command line keeps them: either may read and write the
/// file of the other.
struct CredentialFile {
  using Keys = std::vector<std::pair<std::string, KeyRecord>>;

  std::optional<std::string> default_id = {};
  Keys keys = {};  ///< By id, in the order in which they were added.

  [[nodiscard]] const KeyRecord* find(std::string_view id) const noexcept;
  /// Null also when the default names no stored key (R3.15).
  [[nodiscard]] const KeyRecord* default_key() const noexcept;
  /// A known id keeps its place.
  void set(std::string id, KeyRecord record);
  /// Also forgets the default when it was this one. False when there is no such key.
  bool erase(std::string_view id);

  friend bool operator==(const CredentialFile&, const CredentialFile&) = default;
};

/// No message of these repeats anything that the file contains (D7): `invalid_argument` tells which
/// record is wrong by its number, and what was expected.
Result<CredentialFile> parse_credentials(std::string_view text);
Result<std::string> print_credentials(const CredentialFile& file);

/// Where the file is for a user whose home directory is `home`.
std::string credentials_path(std::string_view home);

/// A missing file holds no keys.
Result<CredentialFile> read_credentials(const std::string& path);
/// Replaces the file at once and as a whole, for its owner's eyes only; so is the folder, if it has
/// to be made (R3.14). Two writers do not mix; the last one counts.
Result<void> write_credentials(const std::string& path, const CredentialFile& file);

}  // namespace tinker::session
