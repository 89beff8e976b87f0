#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/records.h"
#include "tinker/local_server.h"
#include "tinker/result.h"

/// Who may do what: by keys, by the tokens that they are exchanged for, and by signed links.
namespace tinker::server {

/// Who makes a request.
struct Caller {
  std::string owner = {};   ///< "tml:organization_user:ada"
  std::string name = {};    ///< "ada"
  std::int64_t key_id = 0;  ///< Stays the same for a key and a secret; 0 without keys.

  friend bool operator==(const Caller&, const Caller&) = default;
};

/// A handle: copies share what was revoked. Loop thread only.
class Access {
 public:
  /// Without keys whoever comes is the one local owner. What signs tokens and links is derived from
  /// `secret`, 32 random bytes. Fails with `invalid_argument` for a key that no server should have
  /// (`check_key`), or that is there twice.
  static Result<Access> create(const std::vector<ServedKey>& keys, std::string_view secret);

  [[nodiscard]] bool needs_key() const noexcept;
  /// By a key or an unexpired token of `issue_token`; the time it takes does not tell which key is
  /// nearly right. Fails with `unauthenticated`, without a word of the credential.
  [[nodiscard]] Result<Caller> authenticate(std::string_view credential, Instant now) const;
  /// A JWT (PROTOCOL 9.3, rule 20 of section 10).
  [[nodiscard]] Result<std::string> issue_token(const Caller& caller,
                                                Instant now,
                                                Instant expires) const;
  /// From now on the key is refused, and so are its tokens. Lasts as long as the handles.
  void revoke(std::int64_t key_id);

  /// `target` with "expires" and "signature" added to its query (`links.h`). Fails with
  /// `invalid_argument` for one that has them.
  [[nodiscard]] Result<std::string> sign_link(std::string_view target, Instant expires) const;
  /// Whether a request's target is a link of ours that has not expired. Fails with
  /// `permission_denied`.
  [[nodiscard]] Result<void> check_link(std::string_view target, Instant now) const;

 private:
  struct Parts;
  explicit Access(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<Parts> parts_;
};

}  // namespace tinker::server
