#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace tinker::jinja {

/// Where a loop is: `loop` in its body.
struct LoopState {
  Value over = {};  ///< A list or a tuple.
  std::size_t index = 0;
  std::size_t depth = 0;
  std::optional<Value> changed = {};  ///< What `changed` was last called with.
  Value recursion = {};               ///< What calling `loop` calls; none unless it is recursive.

  [[nodiscard]] const List& items() const noexcept { return over.items(); }
};

/// Nothing where a loop has no such member.
std::optional<Value> loop_member(const Value& loop, std::string_view name);

}  // namespace tinker::jinja
