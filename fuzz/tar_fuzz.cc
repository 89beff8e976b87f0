#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/relative_path.h"
#include "formats/gunzip.h"
#include "formats/tar.h"

namespace {

/// Whatever an archive says, names are safe, and an entry has as many bytes as it promised.
struct Checker final : tinker::formats::TarSink {
  tinker::Result<void> begin(const tinker::formats::TarEntry& entry) override {
    const auto clean = tinker::base::clean_relative_path(entry.name);
    TINKER_CHECK(clean.ok() && *clean == entry.name);
    left = entry.size;
    return {};
  }
  tinker::Result<void> write(std::string_view piece) override {
    TINKER_CHECK(!piece.empty() && piece.size() <= left);
    left -= piece.size();
    return {};
  }
  tinker::Result<void> end() override {
    TINKER_CHECK(left == 0);
    return {};
  }
  std::uint64_t left = 0;
};

}  // namespace

// The size of the pieces, then an archive, compressed or not.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = std::size_t{data[0]} * 16 + 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Checker checker;
  tinker::formats::TarReader reader(checker, {.max_bytes = 1U << 20U, .max_entries = 100});
  tinker::formats::Gunzip unpacking([&](std::string_view bytes) { return reader.put(bytes); });
  const bool packed = tinker::formats::is_gzip(text);
  for (std::size_t at = 0; at < text.size(); at += step) {
    const auto piece = text.substr(at, step);
    const auto taken = packed ? unpacking.put(piece) : reader.put(piece);
    if (!taken.ok()) return 0;
  }
  if (!packed || unpacking.finish().ok()) (void)reader.finish().ok();
  return 0;
}
