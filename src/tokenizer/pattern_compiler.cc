#include <algorithm>
#include <span>
#include <utility>

#include "base/strings.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pattern_parser.h"

namespace tinker::tokenizer {

namespace {

constexpr std::size_t kMaxOps = 4096;
constexpr std::size_t kMaxAlternatives = 32;

/// What a match may begin with, and whether it may be empty.
struct Beginning {
  CodePointSet set = {};
  bool may_be_empty = false;
};

Beginning beginning_of(const PatternNode& node) {
  using enum PatternNode::Kind;
  Beginning out;
  switch (node.kind) {
    case set: return {.set = node.set, .may_be_empty = false};
    case sequence:
      out.may_be_empty = true;
      for (const auto& part : node.parts) {
        const auto next = beginning_of(part);
        out.set.add(next.set);
        if (!next.may_be_empty) {
          out.may_be_empty = false;
          break;
        }
      }
      return out;
    case alternatives:
      for (const auto& part : node.parts) {
        const auto next = beginning_of(part);
        out.set.add(next.set);
        out.may_be_empty |= next.may_be_empty;
      }
      return out;
    case repetition:
      out = beginning_of(node.parts[0]);
      out.may_be_empty |= node.min == 0;
      return out;
    default: return {.set = CodePointSet::all(), .may_be_empty = true};
  }
}

}  // namespace

/// Writes the operations of a pattern.
class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view text) : text_(text) {}

  Result<Pattern> compile(const PatternNode& root) {
    const bool is_choice =
        root.kind == PatternNode::Kind::alternatives && root.parts.size() <= kMaxAlternatives;
    const std::span<const PatternNode> parts =
        is_choice ? std::span(root.parts) : std::span(&root, 1);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto beginning = beginning_of(parts[i]);
      if (beginning.may_be_empty) return refuse("it can match nothing at all");
      out_.alternatives_.push_back(next());
      TINKER_TRY(emit(parts[i]));
      TINKER_TRY(put({.kind = Kind::accept}));
      mark_candidates(beginning.set, std::uint32_t{1} << i);
    }
    find_loops_that_keep_all();
    for (const auto& set : sets_) out_.sets_.emplace_back(set);
    return std::move(out_);
  }

 private:
  using Op = Pattern::Op;
  using Kind = Pattern::Kind;

  [[nodiscard]] Error refuse(std::string_view why) const {
    return {.code = ErrorCode::invalid_argument,
            .message = base::concat("regular expression '", text_, "': ", why)};
  }
  [[nodiscard]] std::uint32_t next() const { return static_cast<std::uint32_t>(out_.ops_.size()); }
  Result<void> put(Op op) {
    if (out_.ops_.size() == kMaxOps) return refuse("it is too long");
    out_.ops_.push_back(op);
    return {};
  }
  std::uint16_t number_of(const CodePointSet& set) {
    const auto same = [&](const CodePointSet& known) {
      return std::ranges::equal(known.ranges(), set.ranges(), [](const auto& a, const auto& b) {
        return a.first == b.first && a.last == b.last;
      });
    };
    const auto known = std::ranges::find_if(sets_, same);
    const auto number = static_cast<std::uint16_t>(known - sets_.begin());
    if (known == sets_.end()) sets_.push_back(set);
    return number;
  }

  Result<void> emit(const PatternNode& node);
  Result<void> emit_alternatives(const PatternNode& node);
  Result<void> emit_repetition(const PatternNode& node);
  Result<void> emit_copies(const PatternNode& node);
  /// `node` between an operation of this kind and `accept`.
  Result<void> emit_inside(Kind kind, const PatternNode& node);
  void mark_candidates(const CodePointSet& set, std::uint32_t bit);
  void find_loops_that_keep_all();

  std::string_view text_;
  Pattern out_;
  std::vector<CodePointSet> sets_;
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
  out_.ops_[opening].target = next();
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
    out_.ops_[split].target = next();
  }
  TINKER_TRY(emit(node.parts.back()));
  for (const auto jump : jumps) out_.ops_[jump].target = next();
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
  if (node.max == kNoLimit && beginning_of(part).may_be_empty) {
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
    out_.ops_[split].target = next();
    return {};
  }
  std::vector<std::uint32_t> splits;
  for (std::uint32_t i = node.min; i < node.max; ++i) {
    splits.push_back(next());
    TINKER_TRY(put({.kind = Kind::split}));
    TINKER_TRY(emit(part));
  }
  for (const auto split : splits) out_.ops_[split].target = next();
  return {};
}

void PatternCompiler::mark_candidates(const CodePointSet& set, std::uint32_t bit) {
  bool has_others = false;
  for (const auto& [first, last] : set.ranges()) {
    for (char32_t c = first; c <= last && c < 0x80; ++c) out_.candidates_[c] |= bit;
    has_others |= last >= 0x80;
  }
  if (!has_others) return;
  for (std::size_t byte = 0x80; byte < 0x100; ++byte) out_.candidates_[byte] |= bit;
}

/// Those in front of something that none of their characters could begin.
void PatternCompiler::find_loops_that_keep_all() {
  for (std::size_t i = 0; i + 1 < out_.ops_.size(); ++i) {
    Op& op = out_.ops_[i];
    const Op& after = out_.ops_[i + 1];
    if (op.kind != Kind::loop) continue;
    const bool is_last = after.kind == Kind::accept;
    const bool is_apart = after.kind == Kind::loop && after.min > 0 &&
                          sets_[op.set].intersection(sets_[after.set]).empty();
    op.keeps_all |= is_last || is_apart;
  }
}

Result<Pattern> Pattern::compile(std::string_view text, Dialect dialect) {
  TINKER_TRY(const auto root, parse_pattern(text, dialect));
  return PatternCompiler(text).compile(root);
}

}  // namespace tinker::tokenizer
