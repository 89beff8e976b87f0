#include "server/journal_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/files.h"
#include "base/strings.h"
#include "server/little_endian.h"

namespace tinker::server {

namespace {

constexpr std::string_view kMagic = "tinkerJ1";
constexpr std::size_t kFrameHead = 3 * sizeof(std::uint32_t);
constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

std::string frame(const std::string& content) {
  std::string out;
  out.reserve(kFrameHead + content.size());
  put_little_endian(out, static_cast<std::uint32_t>(content.size()));
  put_little_endian(out, base::crc32c(out));
  put_little_endian(out, base::crc32c(content));
  return out += content;
}

/// Has one record of a file in memory at a time.
class Reader {
 public:
  static Result<Reader> open(std::string path) {
    base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return base::system_error("open", path);
    Reader out(std::move(file), std::move(path));
    TINKER_TRY(const auto magic, out.take(kMagic.size()));
    if (magic == kMagic) return out;
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat("journal ", out.path_, ": this is no journal")};
  }

  /// Nothing at the end, or where the last record is not complete.
  Result<std::optional<JournalRecord>> next() {
    TINKER_TRY(const std::string head, take(kFrameHead));
    if (head.size() < kFrameHead) return at_tail(!head.empty());
    const std::string_view sums = std::string_view(head).substr(sizeof(std::uint32_t));
    if (base::crc32c(head.substr(0, sizeof(std::uint32_t))) !=
        get_little_endian<std::uint32_t>(sums)) {
      // A file system may have made the file longer without having written what belongs there.
      TINKER_TRY(const bool is_zero, is_zero_from(head));
      if (!is_zero) return damaged();
      return at_tail(true);
    }
    const std::size_t length = get_little_endian<std::uint32_t>(head);
    TINKER_TRY(const std::string content, take(length));
    if (content.size() < length) return at_tail(true);
    if (base::crc32c(content) !=
        get_little_endian<std::uint32_t>(sums.substr(sizeof(std::uint32_t)))) {
      TINKER_TRY(const std::string more, take(1));
      if (!more.empty()) return damaged();
      return at_tail(true);
    }
    TINKER_TRY(auto record, JournalRecord::decode(content));
    size_ += kFrameHead + length;
    return std::optional(std::move(record));
  }
  /// Of what is complete.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_torn() const noexcept { return is_torn_; }

 private:
  Reader(base::FileDescriptor file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  /// The next `size` bytes, or what is left.
  Result<std::string> take(std::size_t size) {
    std::string out;
    while (true) {
      const std::size_t count = std::min(size - out.size(), end_ - at_);
      out.append(buffer_, at_, count);
      at_ += count;
      if (out.size() == size) return out;
      TINKER_TRY(const auto piece, base::read_some(file_, buffer_, path_));
      at_ = 0;
      end_ = piece.size();
      if (piece.empty()) return out;
    }
  }
  Result<bool> is_zero_from(std::string bytes) {
    while (!bytes.empty()) {
      if (!std::ranges::all_of(bytes, [](char c) { return c == '\0'; })) return false;
      TINKER_TRY(bytes, take(kReadBytes));
    }
    return true;
  }
  std::optional<JournalRecord> at_tail(bool is_torn) {
    is_torn_ = is_torn;
    return std::nullopt;
  }
  [[nodiscard]] Error damaged() const {
    return {.code = ErrorCode::io_error,
            .message = base::concat("journal ", path_, ": damaged at byte ", size_)};
  }

  base::FileDescriptor file_;
  std::string path_;
  std::string buffer_ = std::string(kReadBytes, '\0');
  std::size_t at_ = 0;  // what is not taken yet of the buffer is from here to `end_`
  std::size_t end_ = 0;
  std::uint64_t size_ = kMagic.size();
  bool is_torn_ = false;
};

/// So that a name that was made below `path` survives a power cut.
void sync_folders(std::filesystem::path path) {
  constexpr int kMade = 3;  // the run's, its session's, that of all
  for (int i = 0; i < kMade; ++i) {
    path = path.parent_path();
    (void)base::sync_folder(path.string());  // some file systems cannot
  }
}

}  // namespace

struct JournalFile::NewFile {
  base::FileDescriptor file;
  std::string path;
  std::uint64_t size = 0;

  static Result<NewFile> create(const std::string& path) {
    TINKER_TRY(base::make_folders_above(path));
    const std::string written = path + ".new";
    constexpr mode_t kMode = 0600;  // bodies of requests, which may hold tokens
    base::FileDescriptor file(
        ::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, kMode));
    if (!file.is_open()) return base::system_error("make", written);
    NewFile out = {.file = std::move(file), .path = written};
    TINKER_TRY(out.write(kMagic));
    return out;
  }
  Result<void> write(std::string_view bytes) {
    size += bytes.size();
    return base::write_all(file, bytes, path);
  }
  Result<void> write(std::span<const JournalRecord> records) {
    for (const auto& record : records) {
      TINKER_TRY(write(frame(record.encode())));
    }
    return {};
  }
  Result<JournalFile> rename_to(const std::string& target) && {
    if (::fsync(file.get()) != 0) return base::system_error("sync", path);
    if (std::rename(path.c_str(), target.c_str()) != 0) return base::system_error("make", target);
    sync_folders(target);
    return JournalFile(std::move(file), target, size);
  }
};

Result<JournalFile> JournalFile::create(const std::string& path,
                                        std::span<const JournalRecord> records) {
  TINKER_TRY(auto made, NewFile::create(path));
  TINKER_TRY(made.write(records));
  return std::move(made).rename_to(path);
}

Result<JournalFile> JournalFile::rewrite(
    std::span<const JournalRecord> head,
    const std::function<bool(const JournalRecord&)>& keep) const {
  TINKER_TRY(auto made, NewFile::create(path_));
  TINKER_TRY(made.write(head));
  TINKER_TRY(auto reader, Reader::open(path_));
  while (true) {
    TINKER_TRY(const auto record, reader.next());
    if (!record) return std::move(made).rename_to(path_);
    if (keep(*record)) {
      TINKER_TRY(made.write(std::span(&*record, 1)));
    }
  }
}

Result<JournalFile::Opened> JournalFile::open(std::string path) {
  TINKER_TRY(auto reader, Reader::open(path));
  std::vector<JournalRecord> records;
  while (true) {
    TINKER_TRY(auto record, reader.next());
    if (!record) break;
    records.push_back(*std::move(record));
  }
  base::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.is_open()) return base::system_error("open", path);
  if (reader.is_torn() && (::ftruncate(file.get(), static_cast<off_t>(reader.size())) != 0 ||
                           ::fdatasync(file.get()) != 0)) {
    return base::system_error("cut", path);
  }
  return Opened{.file = JournalFile(std::move(file), std::move(path), reader.size()),
                .records = std::move(records)};
}

Result<void> JournalFile::append(std::span<const JournalRecord> records) {
  if (records.empty()) return {};
  std::uint64_t size = size_;
  Result<void> written;
  for (const auto& record : records) {
    const std::string bytes = frame(record.encode());
    written = base::write_all(file_, bytes, path_);
    if (!written.ok()) break;
    size += bytes.size();
  }
  if (written.ok() && ::fdatasync(file_.get()) != 0) written = base::system_error("sync", path_);
  if (written.ok()) {
    size_ = size;
  } else if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    return base::system_error("cut", path_);
  }
  return written;
}

}  // namespace tinker::server
