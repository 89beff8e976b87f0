#pragma once

#include <optional>

#include "tinker/types/json.h"
#include "tinker/types/metadata.h"

namespace tinker::server {

/// A user's metadata as answers carry it: texts. Other values become their JSON text
/// (PROTOCOL 9.4).
StringMap to_texts(const std::optional<JsonObject>& metadata);

}  // namespace tinker::server
