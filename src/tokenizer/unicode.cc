#include "tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace tinker::tokenizer {

namespace {

constexpr std::array<std::string_view, 30> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

/// Lasts until the next one begins.
struct CategoryRun {
  char32_t first;
  std::string_view category;
};
struct CombiningRun {
  char32_t first;
  char32_t last;
  std::uint8_t combining_class;
};
struct Decomposition {
  char32_t whole;
  char32_t first;
  char32_t second;  // 0: there is none
  bool composes;
};

#include "tokenizer/unicode_data.inc"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
constexpr std::array<CodePointRange, 10> kSpace = {{{0x9, 0xD},
                                                    {0x20, 0x20},
                                                    {0x85, 0x85},
                                                    {0xA0, 0xA0},
                                                    {0x1680, 0x1680},
                                                    {0x2000, 0x200A},
                                                    {0x2028, 0x2029},
                                                    {0x202F, 0x202F},
                                                    {0x205F, 0x205F},
                                                    {0x3000, 0x3000}}};
// NOLINTEND(modernize-use-designated-initializers)

constexpr char32_t kFirstCombining = 0x300;

unsigned char byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

Decoded decode_at(std::string_view text, std::size_t at) noexcept {
  constexpr Decoded kNone = {.code_point = kNoCodePoint, .size = 1};
  const unsigned char lead = byte_at(text, at);
  if (lead < 0x80) return {.code_point = lead, .size = 1};
  if (lead < 0xC2 || lead > 0xF4) return kNone;
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() - at < size) return kNone;
  char32_t code_point = lead & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[at + i])) return kNone;
    code_point = code_point << 6U | (byte_at(text, at + i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code_point < kLeast[size] || code_point > 0x10FFFF) return kNone;
  if (code_point >= 0xD800 && code_point < 0xE000) return kNone;
  return {.code_point = code_point, .size = size};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t bits) { out += static_cast<char>(bits); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6U);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12U);
    put(0x80 | (code_point >> 6U & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18U);
    put(0x80 | (code_point >> 12U & 0x3F));
    put(0x80 | (code_point >> 6U & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

CodePointSet CodePointSet::of(CodePointRange range) {
  CodePointSet set;
  set.ranges_.push_back(range);
  return set;
}

std::optional<CodePointSet> CodePointSet::property(std::string_view name) {
  CodePointSet set;
  if (name == "Han") {
    set.ranges_.assign(std::begin(kHan), std::end(kHan));
    return set;
  }
  const bool is_known = !name.empty() && name.size() <= 2 &&
                        std::ranges::any_of(kCategories, [name](std::string_view category) {
                          return category.starts_with(name);
                        });
  if (!is_known) return std::nullopt;
  for (std::size_t i = 0; i < std::size(kCategoryRuns); ++i) {
    const auto& [first, category] = kCategoryRuns[i];
    if (!category.starts_with(name)) continue;
    const bool is_last = i + 1 == std::size(kCategoryRuns);
    set.add({.first = first, .last = (is_last ? kNoCodePoint : kCategoryRuns[i + 1].first) - 1});
  }
  return set;
}

const CodePointSet& CodePointSet::space() {
  static const CodePointSet set = [] {
    CodePointSet made;
    made.ranges_.assign(kSpace.begin(), kSpace.end());
    return made;
  }();
  return set;
}

void CodePointSet::add(CodePointRange range) {
  // The first that touches it, and the first behind it.
  const auto begin = std::ranges::lower_bound(
      ranges_, range.first, {}, [](const CodePointRange& r) { return r.last + 1; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= range.last + 1; ++end) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), range);
}

void CodePointSet::add(const CodePointSet& other) {
  for (const auto& range : other.ranges_) add(range);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) out.ranges_.push_back({.first = next, .last = first - 1});
    next = last + 1;
  }
  if (next <= kNoCodePoint) out.ranges_.push_back({.first = next, .last = kNoCodePoint});
  return out;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet outside = complement();
  outside.add(other.complement());
  return outside.complement();
}

bool CodePointSet::contains(char32_t code_point) const noexcept {
  const auto at = std::ranges::lower_bound(ranges_, code_point, {}, &CodePointRange::last);
  return at != ranges_.end() && at->first <= code_point;
}

CodePointTable::CodePointTable(const CodePointSet& set) {
  const std::size_t pages = (kNoCodePoint >> kBlockBits) + 1;
  std::vector<Block> whole(pages);
  for (const auto& [first, last] : set.ranges()) {
    for (char32_t c = first; c <= last;) {
      Block& block = whole[c >> kBlockBits];
      if ((c & kBlockMask) == 0 && c + kBlockMask <= last) {
        std::ranges::fill(block.bits, ~std::uint64_t{0});
        c += kBlockMask + 1;
      } else {
        block.bits[(c & kBlockMask) / 64] |= std::uint64_t{1} << (c % 64);
        ++c;
      }
    }
  }
  pages_.reserve(pages);
  std::map<Block, std::uint16_t> numbers;  // most blocks are the same
  for (const Block& block : whole) {
    const auto [known, is_new] = numbers.emplace(block, static_cast<std::uint16_t>(blocks_.size()));
    pages_.push_back(known->second);
    if (is_new) blocks_.push_back(block);
  }
  for (unsigned c = 0; c < 0x80; ++c) ascii_[c] = contains(c) ? 1 : 0;
}

namespace {

// Hangul syllables are computed (Unicode, section 3.12).
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTails = 0x11A7;  // one before the first
constexpr char32_t kLeadCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

/// A code point, or a byte that is none.
struct Unit {
  char32_t code_point;
  std::uint8_t combining_class = 0;
  char byte = 0;  // of what is no character
  Origin origin;
};

std::uint8_t combining_class(char32_t c) {
  if (c < kFirstCombining) return 0;
  const auto* const at = std::ranges::lower_bound(kCombiningRuns, c, {}, &CombiningRun::last);
  return at != std::end(kCombiningRuns) && at->first <= c ? at->combining_class : 0;
}

void decompose(char32_t c, Origin origin, std::vector<Unit>& out) {
  if (c - kSyllables < kSyllableCount) {
    const char32_t index = c - kSyllables;
    out.push_back({.code_point = kLeads + index / (kVowelCount * kTailCount), .origin = origin});
    out.push_back({.code_point = kVowels + index / kTailCount % kVowelCount, .origin = origin});
    if (index % kTailCount != 0)
      out.push_back({.code_point = kTails + index % kTailCount, .origin = origin});
    return;
  }
  const auto* const found = std::ranges::lower_bound(kDecompositions, c, {}, &Decomposition::whole);
  if (found == std::end(kDecompositions) || found->whole != c) {
    out.push_back({.code_point = c, .combining_class = combining_class(c), .origin = origin});
    return;
  }
  decompose(found->first, origin, out);
  if (found->second != 0) decompose(found->second, origin, out);
}

struct Composition {
  char32_t first;
  char32_t second;
  char32_t whole;
};

const std::vector<Composition>& compositions() {
  static const auto sorted = [] {
    std::vector<Composition> made;
    for (const auto& d : kDecompositions) {
      if (d.composes) made.push_back({.first = d.first, .second = d.second, .whole = d.whole});
    }
    std::ranges::sort(made, {}, [](const Composition& c) { return std::pair(c.first, c.second); });
    return made;
  }();
  return sorted;
}

/// 0 when they do not compose.
char32_t compose(char32_t first, char32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  }
  if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTailCount == 0 &&
      second > kTails && second < kTails + kTailCount) {
    return first + (second - kTails);
  }
  const auto& all = compositions();
  const auto found =
      std::ranges::lower_bound(all, std::pair(first, second), {}, [](const Composition& c) {
        return std::pair(c.first, c.second);
      });
  const bool is_found = found != all.end() && found->first == first && found->second == second;
  return is_found ? found->whole : 0;
}

/// Marks that follow a starter, in the order of their classes (Unicode, D109). There are few.
void order_marks(std::vector<Unit>& units) {
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (units[i].combining_class == 0) continue;
    std::size_t at = i;
    while (at > 0 && units[at - 1].combining_class > units[i].combining_class) --at;
    std::rotate(units.begin() + static_cast<std::ptrdiff_t>(at),
                units.begin() + static_cast<std::ptrdiff_t>(i),
                units.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

/// Unicode, D117.
void compose_all(std::vector<Unit>& units) {
  std::size_t size = 0;
  std::optional<std::size_t> starter;
  for (const Unit& unit : units) {
    const bool is_next = starter && size == *starter + 1;
    const bool is_unblocked =
        starter && (is_next || (units[size - 1].combining_class != 0 &&
                                units[size - 1].combining_class < unit.combining_class));
    const char32_t whole = is_unblocked && unit.code_point != kNoCodePoint
                               ? compose(units[*starter].code_point, unit.code_point)
                               : 0;
    if (whole != 0) {
      Unit& composed = units[*starter];
      composed.code_point = whole;
      composed.origin.begin = std::min(composed.origin.begin, unit.origin.begin);
      composed.origin.end = std::max(composed.origin.end, unit.origin.end);
      continue;
    }
    if (unit.combining_class == 0) starter = size;
    units[size++] = unit;
  }
  units.resize(size);
}

/// What may not be as it should, by itself or because of what is before it.
CodePointSet suspects(NormalForm form) {
  CodePointSet set;
  for (const auto& run : kCombiningRuns) set.add({.first = run.first, .last = run.last});
  for (const auto& d : kDecompositions) {
    if (form == NormalForm::nfd || !d.composes) set.add({.first = d.whole, .last = d.whole});
    if (form == NormalForm::nfc && d.composes) set.add({.first = d.second, .last = d.second});
  }
  if (form == NormalForm::nfd) {
    set.add({.first = kSyllables, .last = kSyllables + kSyllableCount - 1});
  } else {
    set.add({.first = kVowels, .last = kVowels + kVowelCount - 1});
    set.add({.first = kTails + 1, .last = kTails + kTailCount - 1});
  }
  return set;
}

}  // namespace

bool is_surely_normalized(std::string_view text, NormalForm form) {
  static const CodePointTable composable(suspects(NormalForm::nfc));
  static const CodePointTable decomposable(suspects(NormalForm::nfd));
  const CodePointTable& table = form == NormalForm::nfc ? composable : decomposable;
  for (std::size_t at = 0; at < text.size();) {
    if (byte_at(text, at) < 0x80) {
      ++at;
      continue;
    }
    const auto [code_point, size] = decode_at(text, at);
    if (table.contains(code_point)) return false;
    at += size;
  }
  return true;
}

std::string normalize(std::string_view text, NormalForm form, std::vector<Origin>* origins) {
  std::vector<Unit> units;
  units.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto [code_point, size] = decode_at(text, at);
    const Origin origin = {.begin = static_cast<std::uint32_t>(at),
                           .end = static_cast<std::uint32_t>(at + size)};
    if (code_point == kNoCodePoint) {
      units.push_back({.code_point = kNoCodePoint, .byte = text[at], .origin = origin});
    } else {
      decompose(code_point, origin, units);
    }
    at += size;
  }
  order_marks(units);
  if (form == NormalForm::nfc) compose_all(units);
  std::string out;
  out.reserve(text.size());
  for (const Unit& unit : units) {
    if (unit.code_point == kNoCodePoint) {
      out += unit.byte;
    } else {
      append_utf8(out, unit.code_point);
    }
    if (origins != nullptr) origins->resize(out.size(), unit.origin);
  }
  return out;
}

}  // namespace tinker::tokenizer
