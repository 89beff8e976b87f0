#include "client/partial_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/relative_path.h"
#include "base/strings.h"

namespace tinker::client {

namespace fs = std::filesystem;
using base::FileDescriptor;
using base::make_folders_above;
using base::sync_folder;
using base::system_error;

namespace {

constexpr std::string_view kMagic = "tinker download 1 ";
constexpr std::size_t kMaxJournal = std::size_t{64} << 20U;

Error io_error(std::string message) {
  return {.code = ErrorCode::io_error, .message = std::move(message)};
}

Error forgotten() {
  return {.code = ErrorCode::cancelled, .message = "the file is fetched again"};
}

Error fs_error(std::string_view what, std::string_view path, const std::error_code& error) {
  return io_error(base::concat(what, " ", path, ": ", error.message()));
}

/// Whether there is anything at all, a dangling link included.
bool exists(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return {};
  const int error = errno;
  struct stat info = {};
  // A link here could lead anywhere.
  if (error == EEXIST && ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return {};
  errno = error;
  return system_error("make folder", path);
}

Result<void> remove_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return fs_error("remove", path, error);
  return {};
}

/// All folders below `path`, and itself; the files were synced when they were complete.
Result<void> sync_folders(const std::string& path) {
  std::error_code error;
  fs::recursive_directory_iterator entries(path, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    if (!entries->is_directory(error)) continue;
    TINKER_TRY(sync_folder(entries->path().string()));
  }
  if (error) return fs_error("read folder", path, error);
  return sync_folder(path);
}

Result<std::string> read_all(const FileDescriptor& file, const std::string& path) {
  std::string out;
  std::string buffer(std::size_t{64} << 10U, '\0');
  while (true) {
    TINKER_TRY(const auto piece, read_some(file, buffer, path));
    if (piece.empty()) return out;
    out += piece;
    if (out.size() > kMaxJournal) return io_error(base::concat(path, " is too long"));
  }
}

/// The next word of a line, or the rest of it for the last one.
std::string_view take_word(std::string_view& line) {
  const auto word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(word.size() + 1, line.size()));
  return word;
}

std::optional<std::uint64_t> take_number(std::string_view& line) {
  const auto word = take_word(line);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

}  // namespace

Result<std::string> check_target(const std::string& folder, bool overwrite) {
  std::error_code error;
  auto path = fs::absolute(folder, error).lexically_normal();
  if (error || folder.empty()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("expected a folder, found ", base::quoted(folder))};
  }
  if (!path.has_filename()) path = path.parent_path();
  if (!path.has_filename()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("cannot download into ", base::quoted(folder))};
  }
  if (!overwrite && exists(path.string())) {
    return io_error(base::concat(path.string(), " is there already; overwrite is not set"));
  }
  return path.string();
}

PartState PartState::of(std::uint64_t size, std::uint64_t part_bytes, std::string etag) {
  const auto parts = size / part_bytes + (size % part_bytes == 0 ? 0 : 1);
  return {.size = size,
          .part_bytes = part_bytes,
          .etag = std::move(etag),
          .done = std::vector<bool>(static_cast<std::size_t>(parts))};
}

std::uint64_t PartState::bytes_of(std::size_t part) const noexcept {
  return std::min(part_bytes, size - begin(part));
}

std::uint64_t PartState::bytes_done() const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t part = 0; part < done.size(); ++part) {
    if (done[part]) bytes += bytes_of(part);
  }
  return bytes;
}

Result<std::shared_ptr<PartialFolder>> PartialFolder::open(const std::string& target,
                                                           const std::string& checkpoint) {
  TINKER_TRY(make_folders_above(target));
  std::string path = target + ".partial";
  TINKER_TRY(make_folder(path));
  TINKER_TRY(auto journal, open_journal(path));
  const std::shared_ptr<PartialFolder> folder(
      new PartialFolder(std::move(path), target, std::move(journal)));
  TINKER_TRY(folder->read_journal(checkpoint));
  TINKER_TRY(make_folder(folder->objects()));
  return folder;
}

Result<FileDescriptor> PartialFolder::open_journal(const std::string& path) {
  const std::string name = path + "/journal";
  std::error_code error;
  const bool is_foreign = !exists(name) && !fs::is_empty(path, error);
  if (is_foreign || error) {
    return io_error(base::concat(path, " is in the way: no download made it"));
  }
  FileDescriptor journal(
      ::open(name.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!journal.is_open()) return system_error("open", name);
  struct stat mine = {};
  struct stat there = {};
  const bool is_locked = ::flock(journal.get(), LOCK_EX | LOCK_NB) == 0;
  // Whoever held it may have finished and removed it.
  const bool is_same = ::fstat(journal.get(), &mine) == 0 && ::stat(name.c_str(), &there) == 0 &&
                       mine.st_ino == there.st_ino;
  if (!is_locked || !is_same) {
    Error busy = io_error(base::concat("another download holds ", path));
    busy.retry.retryable = true;
    return busy;
  }
  return journal;
}

Result<void> PartialFolder::read_journal(const std::string& checkpoint) {
  const std::string head = base::concat(kMagic, checkpoint);
  TINKER_TRY(const std::string text, read_all(journal_, path_ + "/journal"));
  std::string_view rest = text;
  const auto first = rest.substr(0, rest.find('\n'));
  if (!text.empty() && !first.starts_with(kMagic)) {
    return io_error(base::concat(path_, " is in the way: its journal is that of no download"));
  }
  if (first != head || first.size() == rest.size()) {  // nothing, or of another checkpoint
    TINKER_TRY(remove_all(objects()));
    if (::ftruncate(journal_.get(), 0) != 0) return system_error("empty", path_ + "/journal");
    return note(head);
  }
  rest.remove_prefix(first.size() + 1);
  // The last line may be cut short.
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    replay(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  if (!rest.empty()) return note("");  // so that it does not run into the next
  return {};
}

/// "object SIZE PART_BYTES ETAG NAME", "part NUMBER NAME", "forget NAME"; others are passed over.
void PartialFolder::replay(std::string_view line) {
  const auto what = take_word(line);
  if (what == "object") {
    const auto size = take_number(line);
    const auto part_bytes = take_number(line);
    const auto etag = take_word(line);
    if (size.value_or(0) == 0 || part_bytes.value_or(0) == 0 || *size / *part_bytes > kMaxJournal)
      return;
    found_.insert_or_assign(std::string(line),
                            PartState::of(*size, *part_bytes, std::string(etag)));
  } else if (what == "part") {
    const auto part = take_number(line);
    const auto found = found_.find(line);
    if (part && found != found_.end() && *part < found->second.done.size()) {
      found->second.done[static_cast<std::size_t>(*part)] = true;
    }
  } else if (what == "forget") {
    if (const auto found = found_.find(line); found != found_.end()) found_.erase(found);
  }
}

Result<void> PartialFolder::note(const std::string& line) const {
  return write_all(journal_, line + "\n", path_ + "/journal");
}

Result<OpenedObject> PartialFolder::open_object(const std::string& name) {
  std::string path = base::concat(objects(), "/", name);
  TINKER_TRY(make_folders_above(path));
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open()) return system_error("open", path);
  OpenedObject out;
  struct stat info = {};
  const auto found = found_.find(name);
  const bool is_whole = ::fstat(file.get(), &info) == 0 && found != found_.end() &&
                        std::cmp_equal(info.st_size, found->second.size);
  if (is_whole) out.parts = found->second;
  out.file =
      std::make_shared<PartialFile>(shared_from_this(), name, std::move(path), std::move(file));
  return out;
}

Result<void> PartialFolder::forget(const std::string& name) const {
  return note(base::concat("forget ", name));
}

Result<std::string> PartialFolder::make_files() const {
  std::string files = path_ + "/files";
  TINKER_TRY(remove_all(files));
  TINKER_TRY(make_folder(files));
  return files;
}

Result<void> PartialFolder::publish(const std::string& folder, bool overwrite) const {
  TINKER_TRY(sync_folders(folder));
  const bool is_replaced = overwrite && exists(target_);
  TINKER_TRY(is_replaced ? base::swap_names(folder, target_)
                         : base::move_to_new_name(folder, target_));
  TINKER_TRY(sync_folder(fs::path(target_).parent_path().string()));
  std::error_code ignored;  // the download is complete, whatever is left beside it
  fs::remove_all(path_, ignored);
  return {};
}

Result<void> PartialFile::begin(const PartState& parts) const {
  std::error_code error;
  const auto space = fs::space(fs::path(path_).parent_path(), error);
  struct stat info = {};
  const bool is_known = !error && ::fstat(file_.get(), &info) == 0;
  const auto taken = static_cast<std::uint64_t>(info.st_blocks) * 512;
  if (is_known && parts.size > taken && parts.size - taken > space.available) {
    return io_error(base::concat(
        path_, " needs ", parts.size - taken, " bytes, ", space.available, " are free"));
  }
  const std::shared_lock lock(mutex_);
  if (is_forgotten_) return forgotten();
  if (::ftruncate(file_.get(), static_cast<off_t>(parts.size)) != 0) {
    return system_error(base::concat("make room for ", parts.size, " bytes in"), path_);
  }
  if (parts.etag.empty()) return {};  // nothing to know it by the next time
  return folder_->note(
      base::concat("object ", parts.size, " ", parts.part_bytes, " ", parts.etag, " ", name_));
}

Result<void> PartialFile::forget() {
  const std::unique_lock lock(mutex_);
  is_forgotten_ = true;
  TINKER_TRY(folder_->forget(name_));
  if (::ftruncate(file_.get(), 0) != 0) return system_error("empty", path_);
  return {};
}

Result<void> PartialFile::write(std::uint64_t offset, std::string_view bytes) const {
  const std::shared_lock lock(mutex_);
  if (is_forgotten_) return forgotten();
  return base::write_at(file_, offset, bytes, path_);
}

Result<void> PartialFile::finish_part(std::size_t part) const {
  const std::shared_lock lock(mutex_);
  if (is_forgotten_) return forgotten();
  if (::fdatasync(file_.get()) != 0) return system_error("sync", path_);
  return folder_->note(base::concat("part ", part, " ", name_));
}

Result<void> PartialFile::finish(std::uint64_t size) const {
  struct stat info = {};
  if (::fstat(file_.get(), &info) != 0) return system_error("read", path_);
  const auto found = static_cast<std::uint64_t>(info.st_size);
  if (found < size) {
    return io_error(base::concat(path_, " has ", found, " bytes, expected ", size));
  }
  // An earlier attempt may have been at a longer one.
  if (found > size && ::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) {
    return system_error("cut", path_);
  }
  if (::fsync(file_.get()) != 0) return system_error("sync", path_);
  return {};
}

}  // namespace tinker::client
