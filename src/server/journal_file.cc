#include "server/journal_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
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

std::string frame(const JournalRecord& record) {
  const std::string content = record.encode();
  std::string out;
  out.reserve(kFrameHead + content.size());
  put_little_endian(out, static_cast<std::uint32_t>(content.size()));
  put_little_endian(out, base::crc32c(out));
  put_little_endian(out, base::crc32c(content));
  return out += content;
}

Result<std::string> read_all(const std::string& path) {
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return base::system_error("open", path);
  std::string out;
  std::string buffer(kReadBytes, '\0');
  while (true) {
    TINKER_TRY(const auto piece, base::read_some(file, buffer, path));
    if (piece.empty()) return out;
    out += piece;
  }
}

struct Parsed {
  std::vector<JournalRecord> records = {};
  std::size_t size = 0;  // of what is complete
};

Error damaged(const std::string& path, std::size_t at) {
  return {.code = ErrorCode::io_error,
          .message = base::concat("journal ", path, ": damaged at byte ", at)};
}

Result<Parsed> parse(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with(kMagic)) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat("journal ", path, ": this is no journal")};
  }
  Parsed out = {.size = kMagic.size()};
  while (out.size + kFrameHead <= bytes.size()) {
    const auto rest = bytes.substr(out.size);
    const std::size_t length = get_little_endian<std::uint32_t>(rest);
    if (base::crc32c(rest.substr(0, 4)) != get_little_endian<std::uint32_t>(rest.substr(4))) {
      // A file system may have made the file longer without having written what belongs there.
      if (std::ranges::all_of(rest, [](char c) { return c == '\0'; })) break;
      return damaged(path, out.size);
    }
    const auto content = rest.substr(kFrameHead, length);
    const bool is_last = rest.size() <= kFrameHead + length;
    if (content.size() < length) break;
    if (base::crc32c(content) != get_little_endian<std::uint32_t>(rest.substr(8))) {
      if (is_last) break;
      return damaged(path, out.size);
    }
    TINKER_TRY(auto record, JournalRecord::decode(content));
    out.records.push_back(std::move(record));
    out.size += kFrameHead + length;
  }
  return out;
}

/// So that a name that was made below `path` survives a power cut.
void sync_folders(std::filesystem::path path) {
  constexpr int kMade = 3;  // the run's, its session's, that of all
  for (int i = 0; i < kMade; ++i) {
    path = path.parent_path();
    (void)base::sync_folder(path.string());  // some file systems cannot
  }
}

}  // namespace

Result<JournalFile> JournalFile::create(std::string path, std::span<const JournalRecord> records) {
  TINKER_TRY(base::make_folders_above(path));
  const std::string written = path + ".new";
  constexpr mode_t kMode = 0600;  // bodies of requests, which may hold tokens
  base::FileDescriptor file(
      ::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, kMode));
  if (!file.is_open()) return base::system_error("make", written);
  TINKER_TRY(base::write_all(file, kMagic, written));
  std::uint64_t size = kMagic.size();
  for (const auto& record : records) {
    const std::string bytes = frame(record);
    TINKER_TRY(base::write_all(file, bytes, written));
    size += bytes.size();
  }
  if (::fsync(file.get()) != 0) return base::system_error("sync", written);
  if (std::rename(written.c_str(), path.c_str()) != 0) return base::system_error("make", path);
  sync_folders(path);
  return JournalFile(std::move(file), std::move(path), size);
}

Result<JournalFile::Opened> JournalFile::open(std::string path) {
  TINKER_TRY(const std::string bytes, read_all(path));
  TINKER_TRY(auto parsed, parse(bytes, path));
  base::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.is_open()) return base::system_error("open", path);
  if (parsed.size < bytes.size() &&
      (::ftruncate(file.get(), static_cast<off_t>(parsed.size)) != 0 ||
       ::fdatasync(file.get()) != 0)) {
    return base::system_error("cut", path);
  }
  return Opened{.file = JournalFile(std::move(file), std::move(path), parsed.size),
                .records = std::move(parsed.records)};
}

Result<void> JournalFile::append(std::span<const JournalRecord> records) {
  if (records.empty()) return {};
  std::uint64_t size = size_;
  Result<void> written;
  for (const auto& record : records) {
    const std::string bytes = frame(record);
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

Result<std::vector<JournalRecord>> JournalFile::read() const {
  TINKER_TRY(const std::string bytes, read_all(path_));
  TINKER_TRY(auto parsed, parse(bytes, path_));
  return std::move(parsed.records);
}

}  // namespace tinker::server
