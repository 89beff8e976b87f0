#include "wire/path.h"

#include "base/strings.h"

namespace tinker::wire {

std::string Path::to_string() const {
  if (steps_.empty()) return "$";
  constexpr std::size_t kLongest = 200;  // deep documents are no reason for deep messages
  std::string out;
  for (const auto& step : steps_) {
    if (out.size() > kLongest) return out + "...";
    if (const auto* index = std::get_if<std::size_t>(&step)) {
      out += base::concat('[', *index, ']');
    } else {
      if (!out.empty()) out += '.';
      out += *std::get_if<std::string_view>(&step);
    }
  }
  return out;
}

}  // namespace tinker::wire
