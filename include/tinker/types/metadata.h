#pragma once

#include <functional>
#include <map>
#include <string>

#include "tinker/types/json.h"

namespace tinker {

/// Texts by name: the user's own metadata, as servers give it back.
using StringMap = std::map<std::string, std::string, std::less<>>;

/// An arm of a union that a newer server sent and this library does not know: the object as it
/// came.
struct UnknownVariant {
  Json value = {};

  friend bool operator==(const UnknownVariant&, const UnknownVariant&) = default;
};

}  // namespace tinker
