#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace tinker::jinja {

struct Syntax;

struct RenderOptions {
  /// What `strftime_now` says it is.
  std::chrono::sys_seconds now = {};
  /// Rendering fails where it would print or make more. In bytes.
  std::size_t max_bytes = std::size_t{64} << 20U;
  /// Rendering fails where it would take longer: one step is about one operator or tag.
  std::size_t max_steps = 50'000'000;
};

/// A template in the language of Jinja 3.1, as chat templates use it: with `trim_blocks` and
/// `lstrip_blocks`, loop controls, `raise_exception`, `strftime_now`, the tag `generation`, and
/// `tojson` as the Python tools of models define it. Without inheritance and includes.
///
/// Immutable.
class Template {
 public:
  /// Fails with `invalid_argument` and a message that begins with line and column.
  static Result<Template> parse(std::string_view source);

  /// Likewise; what `raise_exception` says is the message then.
  [[nodiscard]] Result<std::string> render(const Dict& variables,
                                           const RenderOptions& options) const;

 private:
  explicit Template(std::shared_ptr<const Syntax> syntax) : syntax_(std::move(syntax)) {}

  std::shared_ptr<const Syntax> syntax_;
};

}  // namespace tinker::jinja
