#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"
#include "tinker/secret.h"

/// Files encrypted for their recipients (age-encryption.org/v1), with X25519 keys.
namespace tinker::server {

/// A file that only the holders of the recipients' keys can read, made piece by piece.
class AgeEncryptor {
 public:
  /// Fails with `invalid_argument` for a recipient that is no "age1…" key, naming it and, for SSH
  /// keys, saying that they are not supported; for none; for more than 10.
  static Result<AgeEncryptor> create(std::span<const std::string> recipients);
  AgeEncryptor(AgeEncryptor&&) noexcept;
  AgeEncryptor& operator=(AgeEncryptor&&) noexcept;
  ~AgeEncryptor();

  /// Adds `plain`; appends what can be written of the file so far to `out`.
  Result<void> update(std::string_view plain, std::string& out);
  /// Appends the rest. To be called once.
  Result<void> finish(std::string& out);

 private:
  struct Parts;
  explicit AgeEncryptor(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

struct AgeIdentity {
  Secret secret = {};          ///< "AGE-SECRET-KEY-1…"
  std::string recipient = {};  ///< "age1…"
};
Result<AgeIdentity> make_age_identity();
/// The plain text of a whole file. Fails with `invalid_argument` for a file that is damaged, cut,
/// or for others.
Result<std::string> age_decrypt(std::string_view file, const Secret& identity);

}  // namespace tinker::server
