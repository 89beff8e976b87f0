#include "tokenizer/pattern.h"

#include <utility>

namespace tinker::tokenizer {

namespace {

/// Where the code point before `at` begins, as `decode_at` would have found it.
std::size_t step_back(std::string_view text, std::size_t at) noexcept {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && is_continuation(text[begin])) --begin;
  return decode_at(text, begin).size == at - begin ? begin : at - 1;
}

}  // namespace

Pattern::Pattern(PatternProgram program)
    : automaton_(Automaton::of(program)),
      ops_(std::move(program.ops)),
      alternatives_(std::move(program.alternatives)) {
  if (automaton_) return;
  for (const auto& set : program.sets) sets_.emplace_back(set);
}

bool Pattern::holds(std::string_view text, std::size_t at, Kind kind) const noexcept {
  switch (kind) {
    case Kind::line_begin: return at == 0 || text[at - 1] == '\n';
    case Kind::line_end: return at == text.size() || text[at] == '\n';
    case Kind::text_begin: return at == 0;
    default: return at == text.size();
  }
}

bool Pattern::run_loop(std::string_view text,
                       std::size_t& at,
                       std::uint32_t op,
                       Scratch& scratch) const {
  const PatternOp& loop = ops_[op];
  const CodePointTable& set = sets_[loop.set];
  std::size_t least = at;  // after `min` of them
  std::uint32_t count = 0;
  while (count < loop.max && at < text.size()) {
    if (set.has_ascii(text[at])) {
      ++at;
    } else {
      if (static_cast<unsigned char>(text[at]) < 0x80) break;
      const auto [code_point, size] = decode_at(text, at);
      if (!set.contains(code_point)) break;
      at += size;
    }
    if (++count == loop.min) least = at;
  }
  if (count < loop.min) return false;
  if (!loop.keeps_all && at > least) {
    scratch.choices_.push_back({.op = op + 1, .at = at, .least = least});
  }
  return true;
}

std::size_t Pattern::match(std::string_view text,
                           std::size_t at,
                           std::uint32_t op,
                           Scratch& scratch) const {
  auto& choices = scratch.choices_;
  const std::size_t base = choices.size();
  while (true) {
    bool has_failed = false;
    const PatternOp& now = ops_[op];
    switch (now.kind) {
      case Kind::accept: choices.resize(base); return at;
      case Kind::loop: has_failed = !run_loop(text, at, op++, scratch); break;
      case Kind::split:
        choices.push_back({.op = now.target, .at = at, .least = at});
        ++op;
        break;
      case Kind::jump: op = now.target; break;
      case Kind::look_ahead:
      case Kind::look_ahead_not:
      case Kind::atomic: {
        const std::size_t end = match(text, at, op + 1, scratch);
        has_failed = (end == kNoMatch) == (now.kind != Kind::look_ahead_not);
        if (now.kind == Kind::atomic) at = end;
        op = now.target;
        break;
      }
      default: has_failed = !holds(text, at, now.kind); ++op;
    }
    if (!has_failed) continue;
    if (choices.size() == base) return kNoMatch;
    Choice& last = choices.back();
    op = last.op;
    if (last.at > last.least) {
      last.at = step_back(text, last.at);
      at = last.at;
      if (last.at == last.least) choices.pop_back();
    } else {
      at = last.at;
      choices.pop_back();
    }
  }
}

std::size_t Pattern::match_here(std::string_view text, std::size_t at, Scratch& scratch) const {
  for (const auto alternative : alternatives_) {
    const std::size_t end = match(text, at, alternative, scratch);
    if (end != kNoMatch) return end;
  }
  return at;
}

}  // namespace tinker::tokenizer
