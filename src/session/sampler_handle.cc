#include "session/sampler_handle.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "base/strings.h"
#include "tinker/types/json.h"
#include "wire/base64.h"
#include "wire/json.h"

namespace tinker::session {

namespace {

Error bad_handle(std::string_view why) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("this is not a sampler handle: ", why)};
}

/// `object` has no members but `allowed`.
Result<void> check_members(const Json& value,
                           std::string_view where,
                           std::initializer_list<std::string_view> allowed) {
  const auto* object = value.get_if<Json::Object>();
  if (object == nullptr) return bad_handle(base::concat(where, " is not an object"));
  for (const auto& [name, member] : *object) {
    if (std::ranges::find(allowed, name) == allowed.end()) {
      return bad_handle(base::concat(where, " has a member that is not known, \"", name, "\""));
    }
  }
  return {};
}

Result<std::string> text_member(const Json& object, std::string_view name) {
  const Json* member = object.find(name);
  const auto* text = member == nullptr ? nullptr : member->get_if<std::string>();
  if (text == nullptr) return bad_handle(base::concat("\"", name, "\" must be a text"));
  return *text;
}

template <typename Config>
Result<Config> config_member(const Json& object, std::string_view name) {
  const Json* member = object.find(name);
  if (member == nullptr) return bad_handle(base::concat("\"", name, "\" is missing"));
  TINKER_TRY(const std::string text, wire::encode_json(*member));
  auto config = wire::decode_json<Config>(text);
  if (!config) return bad_handle(base::concat("\"", name, "\" does not fit"));
  return config;
}

template <typename Config>
Result<Json> to_json(const Config& config) {
  TINKER_TRY(const std::string text, wire::encode_json(config));
  return wire::decode_json<Json>(text);
}

}  // namespace

Result<std::string> encode_sampler_handle(const SamplerHandle& handle) {
  TINKER_TRY(Json config, to_json(handle.config));
  TINKER_TRY(Json dynamic_config, to_json(handle.dynamic_config));
  const Json::Object holder = {{"base_url", handle.base_url},
                               {"default_headers_overrides", Json::Object()},
                               {"client_config", std::move(config)},
                               {"client_dynamic_config", std::move(dynamic_config)},
                               {"api_key", nullptr}};
  const Json whole = Json::Object{{"session_id", handle.session_id},
                                  {"sampling_session_id", handle.sampling_session_id},
                                  {"holder", holder},
                                  {"record_stability_info", handle.record_stability_info}};
  TINKER_TRY(const std::string text, wire::encode_json(whole));
  std::string out = wire::to_base64(text);
  std::ranges::replace(out, '+', '-');
  std::ranges::replace(out, '/', '_');
  return out;
}

Result<SamplerHandle> decode_sampler_handle(std::string_view text) {
  std::string standard(text);
  std::ranges::replace(standard, '-', '+');
  std::ranges::replace(standard, '_', '/');
  const auto bytes = wire::from_base64(standard);
  if (!bytes) return bad_handle("expected URL-safe base64");
  const auto parsed = wire::decode_json<Json>(*bytes);
  if (!parsed) return bad_handle("expected JSON inside the base64");
  TINKER_TRY(
      check_members(*parsed,
                    "the handle",
                    {"session_id", "sampling_session_id", "holder", "record_stability_info"}));
  const Json* holder = parsed->find("holder");
  if (holder == nullptr) return bad_handle("\"holder\" is missing");
  TINKER_TRY(check_members(*holder,
                           "\"holder\"",
                           {"base_url",
                            "default_headers_overrides",
                            "client_config",
                            "client_dynamic_config",
                            "api_key"}));
  if (holder->find("default_headers_overrides") == nullptr) {
    return bad_handle("\"default_headers_overrides\" is missing");
  }

  SamplerHandle out;
  TINKER_TRY(out.session_id, text_member(*parsed, "session_id"));
  TINKER_TRY(out.sampling_session_id, text_member(*parsed, "sampling_session_id"));
  TINKER_TRY(out.base_url, text_member(*holder, "base_url"));
  TINKER_TRY(out.config, config_member<ClientConfigResponse>(*holder, "client_config"));
  TINKER_TRY(out.dynamic_config,
             config_member<ClientDynamicConfigResponse>(*holder, "client_dynamic_config"));
  if (const Json* info = parsed->find("record_stability_info")) {
    const auto* flag = info->get_if<bool>();
    if (flag == nullptr) return bad_handle("\"record_stability_info\" must be true or false");
    out.record_stability_info = *flag;
  }
  return out;
}

}  // namespace tinker::session
