#include "tokenizer/aligned_text.h"

#include <algorithm>
#include <utility>

namespace tinker::tokenizer {

AlignedText::AlignedText(std::string_view text, std::size_t offset, bool is_tracked)
    : text_(text), at_(static_cast<std::uint32_t>(offset)), is_tracked_(is_tracked) {
  if (!is_tracked) return;
  origins_.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto begin = static_cast<std::uint32_t>(offset + i);
    origins_.push_back({.begin = begin, .end = begin + 1});
  }
}

Origin AlignedText::origin(std::size_t begin, std::size_t end) const {
  Origin out = origins_[begin];
  for (std::size_t i = begin + 1; i < end; ++i) {
    out.begin = std::min(out.begin, origins_[i].begin);
    out.end = std::max(out.end, origins_[i].end);
  }
  return out;
}

void AlignedText::replace(std::size_t begin, std::size_t end, std::string_view content) {
  if (is_tracked_) {
    // What is put in stands where it is put.
    const std::uint32_t place = begin < origins_.size() ? origins_[begin].begin
                                : !origins_.empty()     ? origins_.back().end
                                                        : at_;
    const Origin whole = begin < end ? origin(begin, end) : Origin{.begin = place, .end = place};
    const auto first = origins_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto after = origins_.erase(first, first + static_cast<std::ptrdiff_t>(end - begin));
    origins_.insert(after, content.size(), whole);
  }
  text_.replace(begin, end - begin, content);
}

void AlignedText::replace_all(std::string_view from, std::string_view to) {
  if (from.empty() || text_.find(from) == std::string::npos) return;
  std::string text;
  std::vector<Origin> origins;
  text.reserve(text_.size() + text_.size() / 4);
  std::size_t at = 0;
  while (true) {
    const std::size_t found = std::min(text_.find(from, at), text_.size());
    text.append(text_, at, found - at);
    if (is_tracked_) {
      const auto begin = origins_.begin();
      origins.insert(origins.end(),
                     begin + static_cast<std::ptrdiff_t>(at),
                     begin + static_cast<std::ptrdiff_t>(found));
    }
    if (found == text_.size()) break;
    text += to;
    if (is_tracked_) origins.insert(origins.end(), to.size(), origin(found, found + from.size()));
    at = found + from.size();
  }
  text_ = std::move(text);
  origins_ = std::move(origins);
}

void AlignedText::assign(std::string text, const std::vector<Origin>& origins) {
  if (is_tracked_) {
    std::vector<Origin> moved;
    moved.reserve(origins.size());
    for (const auto& [begin, end] : origins) moved.push_back(origin(begin, end));
    origins_ = std::move(moved);
  }
  text_ = std::move(text);
}

}  // namespace tinker::tokenizer
