#include "tokenizer/automaton.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace tinker::tokenizer {

namespace {

constexpr char32_t kLineEnd = '\n';
constexpr std::size_t kMaxSets = 64;
constexpr std::size_t kMaxOps = 256;
constexpr std::uint32_t kMaxCount = 64;
constexpr std::size_t kMaxSteps = std::size_t{1} << 14U;

using Kind = PatternOp::Kind;

/// What a step looks at is the next character, so only these are for an automaton.
bool is_suitable(const PatternProgram& program) {
  if (program.sets.size() > kMaxSets || program.ops.size() > kMaxOps) return false;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const PatternOp& op = program.ops[i];
    switch (op.kind) {
      case Kind::atomic:
      case Kind::line_begin:
      case Kind::text_begin: return false;
      case Kind::look_ahead:
      case Kind::look_ahead_not: {
        const PatternOp& inside = program.ops[i + 1];
        const bool is_one = inside.kind == Kind::loop && inside.min == 1 && op.target == i + 3;
        if (!is_one) return false;
        break;
      }
      case Kind::loop:
        if (op.min > kMaxCount || (op.max > kMaxCount && op.max != kNoLimit)) return false;
        break;
      default: break;
    }
  }
  return true;
}

}  // namespace

class AutomatonBuilder {
 public:
  explicit AutomatonBuilder(const PatternProgram& program) : program_(program) {}

  std::optional<Automaton> build() {
    if (!is_suitable(program_) || !find_kinds()) return std::nullopt;
    out_.steps_.resize(kinds_.size());  // nowhere
    Places first;
    for (const auto begin : program_.alternatives) first.push_back({.op = begin, .count = 0});
    out_.first_ = state_of(std::move(first));
    while (!unfinished_.empty()) {
      const auto [places, state] = *unfinished_.back();
      unfinished_.pop_back();
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        const auto step = step_from(places, kinds_[kind]);
        if (out_.steps_.size() > kMaxSteps) return std::nullopt;
        out_.steps_[state + kind] = step;
      }
    }
    return std::move(out_);
  }

 private:
  /// What is true of all characters of a kind.
  struct Character {
    std::uint64_t sets = 0;  // bits of those that have it
    bool is_line_end = false;
    bool is_text_end = false;
    friend auto operator<=>(const Character&, const Character&) = default;
  };
  /// In front of an operation, a loop of which has run `count` times.
  struct Place {
    std::uint32_t op;
    std::uint32_t count;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Places = std::vector<Place>;  // those to be tried first come first

  bool find_kinds();
  void write_pages(const std::vector<std::uint8_t>& kind_of);
  std::uint16_t state_of(Places places);
  Automaton::Step step_from(const Places& places, Character next);
  /// Goes from a place to all that wait for a character, and lets them have `next`. True when the
  /// match ends here, and what would be tried later does not matter.
  bool follow(Place place, Character next, Places& seen, Places& after) const;
  bool follow_loop(Place place, Character next, Places& seen, Places& after) const;
  [[nodiscard]] static bool has(Character character, std::uint16_t set) {
    return (character.sets >> set & 1U) != 0;
  }

  const PatternProgram& program_;
  Automaton out_;
  std::vector<Character> kinds_;
  std::map<Places, std::uint16_t> states_;
  std::vector<std::map<Places, std::uint16_t>::const_iterator> unfinished_;
};

/// Characters that are in the same sets are of a kind.
bool AutomatonBuilder::find_kinds() {
  std::map<char32_t, std::uint64_t> changes;  // which sets begin or end there
  for (std::size_t i = 0; i < program_.sets.size(); ++i) {
    for (const auto& [first, last] : program_.sets[i].ranges()) {
      changes[first] ^= std::uint64_t{1} << i;
      changes[last + 1] ^= std::uint64_t{1} << i;
    }
  }
  for (const char32_t c : std::array<char32_t, 4>{0, kLineEnd, kLineEnd + 1, kNoCodePoint + 1}) {
    changes[c] ^= 0U;
  }
  kinds_ = {{.is_text_end = true}};
  std::vector<std::uint8_t> kind_of;
  Character character;
  for (const auto& [first, change] : changes) {
    kind_of.resize(
        first, static_cast<std::uint8_t>(std::ranges::find(kinds_, character) - kinds_.begin()));
    character.sets ^= change;
    character.is_line_end = first == kLineEnd;
    if (std::ranges::find(kinds_, character) == kinds_.end()) kinds_.push_back(character);
  }
  if (kinds_.size() > std::numeric_limits<std::uint8_t>::max()) return false;
  write_pages(kind_of);
  return true;
}

void AutomatonBuilder::write_pages(const std::vector<std::uint8_t>& kind_of) {
  constexpr std::ptrdiff_t kPage = std::ptrdiff_t{1} << Automaton::kPageBits;
  std::copy_n(kind_of.begin(), out_.ascii_.size(), out_.ascii_.begin());
  std::map<std::string, std::uint16_t> known;  // most pages are the same
  for (auto at = kind_of.begin(); at != kind_of.end();) {
    const auto end = at + std::min(kPage, kind_of.end() - at);
    const auto [page, is_new] =
        known.emplace(std::string(at, end), static_cast<std::uint16_t>(known.size()));
    out_.pages_.push_back(page->second);
    if (is_new) out_.kinds_.insert(out_.kinds_.end(), at, end);
    at = end;
  }
}

std::uint16_t AutomatonBuilder::state_of(Places places) {
  if (places.empty()) return Automaton::kNowhere;
  const auto number = static_cast<std::uint16_t>(out_.steps_.size());
  const auto [state, is_new] = states_.emplace(std::move(places), number);
  if (is_new) {
    out_.steps_.resize(out_.steps_.size() + kinds_.size());
    unfinished_.emplace_back(state);
  }
  return state->second;
}

Automaton::Step AutomatonBuilder::step_from(const Places& places, Character next) {
  Places seen;
  Places after;
  const bool ends_before = std::ranges::any_of(
      places, [&](const Place& place) { return follow(place, next, seen, after); });
  return {.next = state_of(std::move(after)), .ends_before = ends_before};
}

bool AutomatonBuilder::follow(Place place, Character next, Places& seen, Places& after) const {
  if (std::ranges::find(seen, place) != seen.end()) return false;  // it was tried before
  seen.push_back(place);
  const PatternOp& op = program_.ops[place.op];
  const auto go_on = [&](std::uint32_t to) {
    return follow({.op = to, .count = 0}, next, seen, after);
  };
  switch (op.kind) {
    case Kind::accept: return true;
    case Kind::loop: return follow_loop(place, next, seen, after);
    case Kind::split: return go_on(place.op + 1) || go_on(op.target);
    case Kind::jump: return go_on(op.target);
    case Kind::look_ahead:
    case Kind::look_ahead_not: {
      const bool is_there = has(next, program_.ops[place.op + 1].set);
      return is_there == (op.kind == Kind::look_ahead) && go_on(op.target);
    }
    case Kind::line_end: return (next.is_line_end || next.is_text_end) && go_on(place.op + 1);
    default: return next.is_text_end && go_on(place.op + 1);
  }
}

bool AutomatonBuilder::follow_loop(Place place, Character next, Places& seen, Places& after) const {
  const PatternOp& op = program_.ops[place.op];
  const bool takes = place.count < op.max && has(next, op.set);
  if (takes) {
    // Once there are enough for a loop without end, it does not matter how many.
    const bool counts = op.max != kNoLimit || place.count < op.min;
    const Place again = {.op = place.op, .count = place.count + (counts ? 1 : 0)};
    if (std::ranges::find(after, again) == after.end()) after.push_back(again);
    if (op.keeps_all) return false;
  }
  return place.count >= op.min && follow({.op = place.op + 1, .count = 0}, next, seen, after);
}

std::optional<Automaton> Automaton::of(const PatternProgram& program) {
  return AutomatonBuilder(program).build();
}

}  // namespace tinker::tokenizer
