#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/records.h"
#include "tinker/local_server.h"
#include "tinker/result.h"
#include "tinker/secret.h"

/// Who may do what: keys, the tokens they are exchanged for, signed links, and which pages may talk
/// to a server on the user's own machine.
namespace tinker::server {

/// Who makes a request.
struct Caller {
  std::string owner = {};   ///< "tml:organization_user:ada"
  std::string name = {};    ///< "ada"
  std::int64_t key_id = 0;  ///< 0 without keys.
};

/// One key a line: "OWNER KEY"; '#' begins a comment. Fails with the line's number, never with a
/// key.
Result<std::vector<ServedKey>> parse_key_file(std::string_view text);
/// The same of a file; refuses one that others than its owner can read.
Result<std::vector<ServedKey>> read_key_file(const std::filesystem::path& file);

class Access {
 public:
  /// No keys: whoever comes is the one local owner. `secret` signs tokens and links.
  static Result<Access> create(const std::vector<ServedKey>& keys, std::string secret);

  [[nodiscard]] bool needs_key() const noexcept;
  /// By a key or a token that `issue_token` made and that has not expired (in constant time for any
  /// key). Fails with `unauthenticated`.
  [[nodiscard]] Result<Caller> authenticate(std::string_view credential, Instant now) const;
  /// A JWT (HS256) with exp, sub, org_id, email; lives an hour (PROTOCOL 9.3, rule 13).
  [[nodiscard]] std::string issue_token(const Caller& caller, Instant now) const;
  /// From now on the key is refused, and tokens that were made with it. Lasts as long as the
  /// object.
  void revoke(std::int64_t key_id);

  /// `target` with "expires" and "signature" added to its query.
  [[nodiscard]] std::string sign_link(std::string_view target, Instant expires) const;
  /// Whether a request's target carries a signature of ours that has not expired. Fails with
  /// `permission_denied`.
  [[nodiscard]] Result<void> check_link(std::string_view target, Instant now) const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

/// Whether a browser's request may be answered: its Host names this server and its Origin, where
/// there is one, is this server too. Keeps web sites, also by DNS rebinding, from using a server on
/// loopback. `host` and `origin` are the headers (empty: absent). For servers that listen beyond
/// loopback only the origin counts.
Result<void> check_browser(std::string_view host, std::string_view origin, bool is_loopback);

/// Whether listening at `host` reaches this machine alone: "127.0.0.0/8", "::1", "localhost".
bool is_loopback_host(std::string_view host);

}  // namespace tinker::server
