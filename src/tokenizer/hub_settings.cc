#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "http/ascii.h"
#include "tokenizer/hub_core.h"

namespace tinker::tokenizer {

namespace fs = std::filesystem;
using base::Environment;
using base::variable;

namespace {

constexpr std::string_view kPublicHub = "https://huggingface.co";

bool is_set(const Environment& environment, const char* name) {
  constexpr std::array<std::string_view, 4> kYes = {"1", "on", "yes", "true"};
  const auto value = variable(environment, name);
  return value && std::ranges::find(kYes, http::ascii::to_lower(*value)) != kYes.end();
}

/// A folder or file that a variable names; "~" is the user's home.
std::optional<fs::path> path_variable(const Environment& environment, const char* name) {
  const auto value = variable(environment, name);
  if (!value) return std::nullopt;
  const bool is_at_home = *value == "~" || value->starts_with("~/");
  const auto home = is_at_home ? variable(environment, "HOME") : std::nullopt;
  return home ? fs::path(*home + value->substr(1)) : fs::path(*value);
}

std::optional<fs::path> home_folder(const Environment& environment) {
  if (auto home = path_variable(environment, "HF_HOME")) return home;
  if (auto cache = path_variable(environment, "XDG_CACHE_HOME")) return *cache / "huggingface";
  if (auto home = path_variable(environment, "HOME")) return *home / ".cache" / "huggingface";
  return std::nullopt;
}

std::optional<fs::path> cache_folder(const Environment& environment) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (auto folder = path_variable(environment, name)) return folder;
  }
  const auto home = home_folder(environment);
  return home ? std::optional(*home / "hub") : std::nullopt;
}

Secret find_token(const Environment& environment) {
  if (is_set(environment, "HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (auto token = variable(environment, name)) {
      return Secret(std::string(http::ascii::trim(*token)));
    }
  }
  auto path = path_variable(environment, "HF_TOKEN_PATH");
  if (const auto home = home_folder(environment); !path && home) path = *home / "token";
  if (!path) return {};
  std::ifstream file(*path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return Secret(std::string(http::ascii::trim(text)));
}

}  // namespace

Result<HubSettings> HubSettings::resolve(const HubOptions& options,
                                         const Environment& environment) {
  HubSettings out = {.cache = options.cache};
  const auto variable_value = variable(environment, "HF_ENDPOINT");
  const std::string_view endpoint = !options.endpoint.empty() ? std::string_view(options.endpoint)
                                    : variable_value          ? std::string_view(*variable_value)
                                                              : kPublicHub;
  auto normal = http::normalize_base_url(endpoint);
  if (!normal.ok()) {
    return std::move(normal).error().with_context(options.endpoint.empty() ? "HF_ENDPOINT"
                                                                           : "endpoint");
  }
  out.endpoint = *std::move(normal);
  out.token = options.token ? *options.token : find_token(environment);
  out.is_offline = options.is_offline ? *options.is_offline
                                      : is_set(environment, "HF_HUB_OFFLINE") ||
                                            is_set(environment, "TRANSFORMERS_OFFLINE");
  if (out.cache.empty()) {
    auto folder = cache_folder(environment);
    if (!folder) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = "no folder for the cache: set HF_HOME, HF_HUB_CACHE or HOME"};
    }
    out.cache = *std::move(folder);
  }
  return out;
}

}  // namespace tinker::tokenizer
