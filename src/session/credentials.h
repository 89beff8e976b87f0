#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "api/token_provider.h"
#include "async/runtime_core.h"
#include "session/environment.h"
#include "tinker/result.h"
#include "tinker/secret.h"

namespace tinker::session {

/// Where a credential can come from.
struct CredentialOptions {
  std::optional<Secret> api_key = {};    ///< The argument; an empty one counts as none.
  Environment env = {};                  ///< Empty: that of the process.
  std::string base_url = {};             ///< Empty: as `resolve_base_url` says.
  std::optional<std::string> home = {};  ///< Holds `.tinker/credentials.json`. Absent: `HOME`.
};

/// A command of the shell that prints a credential. It may contain secrets of its own.
struct CredentialCommand {
  Secret text = {};

  friend bool operator==(const CredentialCommand&, const CredentialCommand&) = default;
};

/// An API key or a JWT, or the command that prints one.
using CredentialSource = std::variant<Secret, CredentialCommand>;

/// The credential for `client/config` (`enforce_cmd` false, R3.5) or for the exchange of R3.6
/// (R3.4): a JWT as argument or in `TINKER_API_KEY` is used as it is; otherwise the command if it
/// is enforced; then the key of argument or environment, `TINKER_CREDENTIAL_CMD`, and the stored
/// default key, which is only looked up when nothing else is set.
///
/// The official service takes keys that begin with `tml-` and JWTs only; for other servers, unlike
/// the official client (R3.1), any key will do that can be sent in a header. Fails with
/// `invalid_argument`, or `io_error` for a file that cannot be read; no message contains a
/// credential.
Result<CredentialSource> select_credential(const CredentialOptions& options, bool enforce_cmd);

/// Where `source`, as selected from `options`, came from: "TINKER_API_KEY".
[[nodiscard]] std::string_view name_of(const CredentialSource& source,
                                       const CredentialOptions& options);

/// The key for a server that exchanges none (R3.1): argument, environment or, unless a command is
/// set, the stored one (R3.17).
Result<Secret> select_api_key(const CredentialOptions& options);

/// What `get_tinker_token()` answers (R3.16): environment, then stored key, nothing on any problem.
/// Does not know the command, nor the argument.
std::optional<Secret> configured_token(const CredentialOptions& options);
/// What `tinker_has_credentials()` answers (R3.16). A command counts without being run.
bool has_credentials(const CredentialOptions& options);

/// The provider of `source`.
std::shared_ptr<api::TokenProvider> make_provider(const std::shared_ptr<async::RuntimeCore>& core,
                                                  CredentialSource source);

/// One key, for ever.
class ApiKeyProvider final : public api::TokenProvider {
 public:
  explicit ApiKeyProvider(Secret key) : key_(std::move(key)) {}
  async::Task<Secret> token() override;
  const Secret* known_token() override { return &key_; }

 private:
  Secret key_;
};

}  // namespace tinker::session
