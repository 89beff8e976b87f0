#pragma once

#include <string>
#include <string_view>

#include "base/sha256.h"
#include "server/call.h"
#include "tinker/result.h"
#include "tinker/types/tinker_path.h"

namespace tinker::server {

/// The checkpoint that a path of the form "…/{run}/…/{kind}/{name}…" names.
Result<TinkerPath> path_of(const Call& call);

/// 16 hexadecimal digits that stand for `text`.
inline std::string short_hash(std::string_view text) {
  return base::sha256_hex(text).substr(0, 16);
}

}  // namespace tinker::server
