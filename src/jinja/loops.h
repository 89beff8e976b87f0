#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace tinker::jinja {

/// Where a loop is: `loop` in its body.
struct LoopState {
  List items = {};
  std::size_t index = 0;
  std::size_t depth = 0;
  std::optional<Value> changed = {};  ///< What `changed` was last called with.
  Value recursion = {};               ///< What calling `loop` calls; none unless it is recursive.
};

/// Nothing where a loop has no such member.
std::optional<Value> loop_member(const std::shared_ptr<LoopState>& loop, std::string_view name);

}  // namespace tinker::jinja
