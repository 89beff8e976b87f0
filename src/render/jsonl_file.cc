#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/strings.h"
#include "tinker/check.h"
#include "tinker/rng.h"
#include "tinker/training_data.h"

namespace tinker {

namespace {

constexpr std::size_t kBlock = 1U << 20U;
/// What some editors begin a file with. It is no part of the first line.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void shuffle_with(std::vector<std::size_t>& rows, std::uint64_t seed) {
  Rng rng(seed);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[rng.below(i)]);
}

}  // namespace

/// A line goes from where it begins to where the next line of the file begins.
struct JsonlFile::Lines {
  std::string path = {};
  base::FileDescriptor file;
  struct Line {
    std::uint64_t begin = 0;
    std::uint64_t number = 0;  ///< As editors count.
  };
  std::vector<Line> lines = {};
  std::uint64_t size = 0;
};

Result<JsonlFile> JsonlFile::open(const std::filesystem::path& path) {
  auto lines = std::make_shared<Lines>(
      Lines{.path = path.string(),
            .file = base::FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC))});
  if (!lines->file.is_open()) return base::system_error("open", lines->path);
  std::string buffer(kBlock, '\0');
  Lines::Line line = {.number = 1};
  bool has_text = false;
  while (true) {
    TINKER_TRY(const auto block, base::read_some(lines->file, buffer, lines->path));
    std::size_t i = 0;
    if (lines->size == 0 && block.starts_with(kByteOrderMark))
      i = line.begin = kByteOrderMark.size();
    for (; i < block.size(); ++i) {
      has_text = has_text || !is_blank(block[i]);
      if (block[i] != '\n') continue;
      if (has_text) lines->lines.push_back(line);
      line = {.begin = lines->size + i + 1, .number = line.number + 1};
      has_text = false;
    }
    lines->size += block.size();
    if (block.empty()) break;
  }
  if (has_text) lines->lines.push_back(line);
  return JsonlFile(std::move(lines));
}

std::size_t JsonlFile::size() const noexcept {
  return lines_->lines.size();
}

Result<std::string> JsonlFile::line(std::size_t index) const {
  TINKER_CHECK(index < size());
  const std::uint64_t begin = lines_->lines[index].begin;
  const std::uint64_t end = index + 1 < size() ? lines_->lines[index + 1].begin : lines_->size;
  std::string out(end - begin, '\0');
  std::size_t filled = 0;
  while (filled < out.size()) {
    const auto count = ::pread(lines_->file.get(),
                               out.data() + filled,
                               out.size() - filled,
                               static_cast<off_t>(begin + filled));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::system_error("read", lines_->path);
    if (count == 0) {
      return Error{.code = ErrorCode::io_error,
                   .message = base::concat(place_of(index), ": the file became shorter")};
    }
    filled += static_cast<std::size_t>(count);
  }
  while (!out.empty() && is_blank(out.back())) out.pop_back();
  return out;
}

Result<DataRow> JsonlFile::row(std::size_t index) const {
  TINKER_TRY(const auto text, line(index));
  auto out = parse_data_row(text);
  if (!out.ok()) return std::move(out).error().with_context(place_of(index));
  return out;
}

std::string JsonlFile::place_of(std::size_t index) const {
  return base::concat(lines_->path, ":", lines_->lines[index].number);
}

ShuffledRows::ShuffledRows(std::size_t count, std::uint64_t seed, std::size_t held_out)
    : seed_(seed), rows_(count) {
  std::iota(rows_.begin(), rows_.end(), std::size_t{0});
  shuffle_with(rows_, seed_);
  const auto cut = rows_.begin() + static_cast<std::ptrdiff_t>(std::min(held_out, count));
  held_out_.assign(rows_.begin(), cut);
  rows_.erase(rows_.begin(), cut);
  std::ranges::sort(rows_);
  shuffle();
}

void ShuffledRows::shuffle() {
  order_ = rows_;
  // Each epoch has an order of its own, that depends on no other: a position says all.
  shuffle_with(order_, seed_ ^ ((position_.epoch + 1) * 0x9E3779B97F4A7C15ULL));
}

void ShuffledRows::seek(DataPosition position) {
  const bool is_same_epoch = position.epoch == position_.epoch;
  position_ = position;
  if (!is_same_epoch) shuffle();
}

std::size_t ShuffledRows::next() {
  TINKER_CHECK(!rows_.empty());
  if (position_.row >= order_.size()) seek({.epoch = position_.epoch + 1});
  return order_[position_.row++];
}

}  // namespace tinker
