#include <algorithm>
#include <span>
#include <utility>

#include "base/strings.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pattern_parser.h"

namespace tinker::tokenizer {

namespace {

constexpr std::size_t kMaxOps = 4096;

bool may_be_empty(const PatternNode& node) {
  using enum PatternNode::Kind;
  switch (node.kind) {
    case set: return false;
    case sequence: return std::ranges::all_of(node.parts, may_be_empty);
    case alternatives: return std::ranges::any_of(node.parts, may_be_empty);
    case repetition: return node.min == 0 || may_be_empty(node.parts[0]);
    default: return true;
  }
}

}  // namespace

/// Writes the operations of a pattern.
class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view text) : text_(text) {}

  Result<PatternProgram> compile(const PatternNode& root) {
    const bool is_choice = root.kind == PatternNode::Kind::alternatives;
    const std::span<const PatternNode> parts =
        is_choice ? std::span(root.parts) : std::span(&root, 1);
    for (const auto& part : parts) {
      if (may_be_empty(part)) return refuse("it can match nothing at all");
      out_.alternatives.push_back(next());
      TINKER_TRY(emit(part));
      TINKER_TRY(put({.kind = Kind::accept}));
    }
    find_loops_that_keep_all();
    return std::move(out_);
  }

 private:
  using Kind = PatternOp::Kind;

  [[nodiscard]] Error refuse(std::string_view why) const {
    return {.code = ErrorCode::invalid_argument,
            .message = base::concat("regular expression '", text_, "': ", why)};
  }
  [[nodiscard]] std::uint32_t next() const { return static_cast<std::uint32_t>(out_.ops.size()); }
  Result<void> put(PatternOp op) {
    if (out_.ops.size() == kMaxOps) return refuse("it is too long");
    out_.ops.push_back(op);
    return {};
  }
  std::uint16_t number_of(const CodePointSet& set) {
    const auto same = [&](const CodePointSet& known) {
      return std::ranges::equal(known.ranges(), set.ranges(), [](const auto& a, const auto& b) {
        return a.first == b.first && a.last == b.last;
      });
    };
    const auto known = std::ranges::find_if(out_.sets, same);
    const auto number = static_cast<std::uint16_t>(known - out_.sets.begin());
    if (known == out_.sets.end()) out_.sets.push_back(set);
    return number;
  }

  Result<void> emit(const PatternNode& node);
  Result<void> emit_alternatives(const PatternNode& node);
  Result<void> emit_repetition(const PatternNode& node);
  Result<void> emit_copies(const PatternNode& node);
  /// `node` between an operation of this kind and `accept`.
  Result<void> emit_inside(Kind kind, const PatternNode& node);
  void find_loops_that_keep_all();

  std::string_view text_;
  PatternProgram out_;
};

Result<void> PatternCompiler::emit(const PatternNode& node) {
  using enum PatternNode::Kind;
  switch (node.kind) {
    case set: return put({.kind = Kind::loop, .set = number_of(node.set)});
    case sequence:
      for (const auto& part : node.parts) {
        TINKER_TRY(emit(part));
      }
      return {};
    case alternatives: return emit_alternatives(node);
    case repetition: return emit_repetition(node);
    case look_ahead: return emit_inside(Kind::look_ahead, node.parts[0]);
    case look_ahead_not: return emit_inside(Kind::look_ahead_not, node.parts[0]);
    case line_begin: return put({.kind = Kind::line_begin});
    case line_end: return put({.kind = Kind::line_end});
    case text_begin: return put({.kind = Kind::text_begin});
    case text_end: return put({.kind = Kind::text_end});
  }
  return {};
}

Result<void> PatternCompiler::emit_inside(Kind kind, const PatternNode& node) {
  const std::uint32_t opening = next();
  TINKER_TRY(put({.kind = kind}));
  TINKER_TRY(emit(node));
  TINKER_TRY(put({.kind = Kind::accept}));
  out_.ops[opening].target = next();
  return {};
}

Result<void> PatternCompiler::emit_alternatives(const PatternNode& node) {
  std::vector<std::uint32_t> jumps;
  for (std::size_t i = 0; i + 1 < node.parts.size(); ++i) {
    const std::uint32_t split = next();
    TINKER_TRY(put({.kind = Kind::split}));
    TINKER_TRY(emit(node.parts[i]));
    jumps.push_back(next());
    TINKER_TRY(put({.kind = Kind::jump}));
    out_.ops[split].target = next();
  }
  TINKER_TRY(emit(node.parts.back()));
  for (const auto jump : jumps) out_.ops[jump].target = next();
  return {};
}

Result<void> PatternCompiler::emit_repetition(const PatternNode& node) {
  const PatternNode& part = node.parts[0];
  if (part.kind == PatternNode::Kind::set) {
    return put({.kind = Kind::loop,
                .keeps_all = node.keeps_all,
                .set = number_of(part.set),
                .min = node.min,
                .max = node.max});
  }
  if (!node.keeps_all) return emit_copies(node);
  PatternNode giving = node;
  giving.keeps_all = false;
  return emit_inside(Kind::atomic, giving);
}

Result<void> PatternCompiler::emit_copies(const PatternNode& node) {
  const PatternNode& part = node.parts[0];
  if (node.max == kNoLimit && may_be_empty(part)) {
    return refuse("an endless repetition of what may be empty");
  }
  for (std::uint32_t i = 0; i < node.min; ++i) {
    TINKER_TRY(emit(part));
  }
  if (node.max == kNoLimit) {
    const std::uint32_t split = next();
    TINKER_TRY(put({.kind = Kind::split}));
    TINKER_TRY(emit(part));
    TINKER_TRY(put({.kind = Kind::jump, .target = split}));
    out_.ops[split].target = next();
    return {};
  }
  std::vector<std::uint32_t> splits;
  for (std::uint32_t i = node.min; i < node.max; ++i) {
    splits.push_back(next());
    TINKER_TRY(put({.kind = Kind::split}));
    TINKER_TRY(emit(part));
  }
  for (const auto split : splits) out_.ops[split].target = next();
  return {};
}

/// Those in front of something that none of their characters could begin.
void PatternCompiler::find_loops_that_keep_all() {
  for (std::size_t i = 0; i + 1 < out_.ops.size(); ++i) {
    PatternOp& op = out_.ops[i];
    const PatternOp& after = out_.ops[i + 1];
    if (op.kind != Kind::loop) continue;
    const bool is_last = after.kind == Kind::accept;
    const bool is_apart = after.kind == Kind::loop && after.min > 0 &&
                          out_.sets[op.set].intersection(out_.sets[after.set]).empty();
    op.keeps_all |= is_last || is_apart;
  }
}

Result<Pattern> Pattern::compile(std::string_view text, Dialect dialect) {
  TINKER_TRY(const auto root, parse_pattern(text, dialect));
  TINKER_TRY(auto program, PatternCompiler(text).compile(root));
  return Pattern(std::move(program));
}

}  // namespace tinker::tokenizer
