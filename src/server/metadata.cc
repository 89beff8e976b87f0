#include "server/metadata.h"

#include <string>

#include "wire/json.h"

namespace tinker::server {

StringMap to_texts(const std::optional<JsonObject>& metadata) {
  StringMap out;
  if (!metadata) return out;
  for (const auto& [name, value] : *metadata) {
    if (const auto* text = value.get_if<std::string>()) {
      out[name] = *text;
    } else if (auto json = wire::encode_json(value); json.ok()) {
      out[name] = *std::move(json);
    }
  }
  return out;
}

}  // namespace tinker::server
