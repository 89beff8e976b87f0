#include "session/credentials.h"

#include <algorithm>

#include "base/strings.h"
#include "http/ascii.h"
#include "session/command_provider.h"
#include "session/credential_file.h"
#include "session/jwt.h"

namespace tinker::session {

namespace {

/// A key and the words for where it was found.
struct FoundKey {
  Secret key;
  std::string_view source;
};

Error unusable(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

bool is_official(const CredentialOptions& options) {
  const auto base_url = resolve_base_url(options.base_url, options.env);
  return base_url.ok() && is_official_host(*base_url);
}

Error missing_credential(const CredentialOptions& options, std::string_view hint = {}) {
  return unusable(
      base::concat("no API key: pass one as api_key, or set TINKER_API_KEY",
                   is_official(options) ? "" : "; any text will do for a server of your own",
                   hint));
}

Error missing_command() {
  return unusable(
      "this account takes credentials from a command only: set TINKER_CREDENTIAL_CMD to one that "
      "prints a credential");
}

std::optional<CredentialCommand> command_of(const CredentialOptions& options) {
  auto text = variable(options.env, "TINKER_CREDENTIAL_CMD");
  if (!text) return std::nullopt;
  return CredentialCommand{.text = Secret(*std::move(text))};
}

std::optional<FoundKey> key_from_environment(const CredentialOptions& options) {
  auto text = variable(options.env, "TINKER_API_KEY");
  if (!text) return std::nullopt;
  return FoundKey{.key = Secret(*std::move(text)), .source = "TINKER_API_KEY"};
}

std::optional<FoundKey> given_key(const CredentialOptions& options) {
  if (options.api_key && !options.api_key->empty()) {
    return FoundKey{.key = *options.api_key, .source = "api_key"};
  }
  return key_from_environment(options);
}

/// The key, when it can be used with this server.
Result<Secret> checked(FoundKey found, const CredentialOptions& options) {
  const std::string& text = found.key.expose();
  if (text.empty()) return unusable(base::concat("the key of ", found.source, " is empty"));
  if (std::ranges::any_of(text, http::ascii::is_control)) {
    return unusable(base::concat(
        "the key of ", found.source, " contains a control character, perhaps a line end"));
  }
  const bool is_known_form = text.starts_with("tml-") || looks_like_jwt(found.key);
  if (!is_known_form && is_official(options)) {
    return unusable(base::concat("the key of ", found.source, " does not begin with 'tml-'"));
  }
  return std::move(found.key);
}

/// The default key of the credential file, `missing_credential` when there is none.
Result<Secret> stored_key(const CredentialOptions& options) {
  const auto home = options.home ? options.home : variable(options.env, "HOME");
  if (!home)
    return missing_credential(options, "; HOME is not set, so no stored key can be looked up");
  TINKER_TRY(const auto file, read_credentials(credentials_path(*home)));
  const KeyRecord* record = file.default_key();
  if (record == nullptr) return missing_credential(options);
  return checked({.key = record->key, .source = "the credential file"}, options);
}

}  // namespace

Result<CredentialSource> select_credential(const CredentialOptions& options, bool enforce_cmd) {
  auto found = given_key(options);
  std::optional<Result<Secret>> key;
  if (found) key = checked(*std::move(found), options);
  if (key && key->ok() && looks_like_jwt(**key)) return CredentialSource(**std::move(key));

  auto command = command_of(options);
  if (enforce_cmd && !command) return missing_command();
  const bool is_usable_key = key && key->ok();
  if (command && (enforce_cmd || !is_usable_key)) return CredentialSource(*std::move(command));
  if (!key) key = stored_key(options);
  TINKER_TRY(auto secret, *std::move(key));
  return CredentialSource(std::move(secret));
}

std::string_view name_of(const CredentialSource& source, const CredentialOptions& options) {
  const auto* key = std::get_if<Secret>(&source);
  if (key == nullptr) return "TINKER_CREDENTIAL_CMD";
  const auto given = given_key(options);
  return given && given->key == *key ? given->source : "the credential file";
}

Result<Secret> select_api_key(const CredentialOptions& options) {
  if (auto found = given_key(options)) return checked(*std::move(found), options);
  if (command_of(options)) {
    return missing_credential(options, "; TINKER_CREDENTIAL_CMD is of no use here");
  }
  return stored_key(options);
}

std::optional<Secret> configured_token(const CredentialOptions& options) {
  auto found = key_from_environment(options);
  auto key = found ? checked(*std::move(found), options) : stored_key(options);
  if (!key) return std::nullopt;
  return *std::move(key);
}

bool has_credentials(const CredentialOptions& options) {
  return select_credential(options, false).ok();
}

std::shared_ptr<api::TokenProvider> make_provider(const std::shared_ptr<async::RuntimeCore>& core,
                                                  CredentialSource source) {
  if (auto* command = std::get_if<CredentialCommand>(&source)) {
    return std::make_shared<CommandProvider>(core, std::move(command->text));
  }
  return std::make_shared<ApiKeyProvider>(std::get<Secret>(std::move(source)));
}

async::Task<Secret> ApiKeyProvider::token() {
  co_return key_;
}

}  // namespace tinker::session
