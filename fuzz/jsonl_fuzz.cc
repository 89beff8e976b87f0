// Any bytes as a file of training data: the lines that it has, each a row or refused, and rows
// become data or are refused.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "render_support.h"
#include "tinker/training_data.h"

namespace {

/// The lines, read the plain way.
std::vector<std::string_view> lines_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    const auto last = line.find_last_not_of(kSpace);
    if (last != std::string_view::npos) out.push_back(line.substr(0, last + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto& renderer = tinker::testing::any_renderer(data[0]);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int memory = ::memfd_create("jsonl", MFD_CLOEXEC);
  TINKER_CHECK(memory >= 0);
  TINKER_CHECK(::write(memory, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const auto file = tinker::JsonlFile::open("/proc/self/fd/" + std::to_string(memory));
  ::close(memory);

  TINKER_CHECK(file.ok());
  const auto lines = lines_of(bytes);
  TINKER_CHECK(file->size() == lines.size());
  std::vector<tinker::Datum> all;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = file->line(i);
    TINKER_CHECK(line.ok() && *line == lines[i]);
    const auto row = file->row(i);
    if (!row.ok()) continue;
    auto made = tinker::to_data(*row, renderer);
    if (!made.ok()) continue;
    for (auto& datum : *made) all.push_back(std::move(datum));
  }
  tinker::DataStatistics found;
  for (const auto& datum : all) found.add(datum);
  const auto packed = tinker::pack(all, found.longest);
  TINKER_CHECK(packed.ok());
  tinker::DataStatistics after;
  for (const auto& datum : *packed) after.add(datum);
  TINKER_CHECK(after.tokens == found.tokens && after.trained == found.trained);
  return 0;
}
