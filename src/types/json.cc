#include "tinker/types/json.h"

namespace tinker {

const Json* Json::find(std::string_view name) const noexcept {
  const auto* members = get_if<Object>();
  if (members == nullptr) return nullptr;
  for (const auto& [key, value] : *members) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace tinker
