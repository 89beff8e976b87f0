#include "tokenizer/hub_cache.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/relative_path.h"
#include "base/sha1.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace tinker::tokenizer {

namespace fs = std::filesystem;
using base::FileDescriptor;
using base::system_error;

namespace {

constexpr std::size_t kMaxRepository = 96;
constexpr std::size_t kCommitDigits = 40;
constexpr std::size_t kSha256Digits = 64;
constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

bool is_hex(std::string_view text) noexcept {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// "Qwen/Qwen3-8B" or "gpt2".
bool is_repository(std::string_view text) noexcept {
  const auto is_part = [](std::string_view part) {
    const bool is_plain = std::ranges::all_of(part, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '-' || c == '_' || c == '.';
    });
    const auto is_edge = [](char c) { return c == '-' || c == '.'; };
    return !part.empty() && is_plain && !is_edge(part.front()) && !is_edge(part.back());
  };
  const std::size_t slash = text.find('/');
  const bool is_named = slash == std::string_view::npos
                            ? is_part(text)
                            : is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
  return is_named && text.size() <= kMaxRepository && text.find("--") == std::string_view::npos &&
         text.find("..") == std::string_view::npos;
}

Error invalid(std::string_view what, std::string_view value, std::string_view expected) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat(what, ": expected ", expected, ", found ", base::quoted(value))};
}

Result<FileDescriptor> open_file(const std::string& path) {
  TINKER_TRY(base::make_folders_above(path));
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) return system_error("open", path);
  return file;
}

/// A name beside `path` that nobody else uses.
std::string name_beside(const std::string& path) {
  static std::atomic<unsigned> count = 0;
  return base::concat(path, ".", ::getpid(), ".", count++, ".tmp");
}

Result<void> move_to(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  const Error error = system_error("make", to);
  ::unlink(from.c_str());
  return error;
}

/// The file has this content, at once.
Result<void> put_file(const std::string& path, std::string_view content) {
  const std::string temporary = name_beside(path);
  {
    TINKER_TRY(const auto file, open_file(temporary));
    TINKER_TRY(base::write_all(file, content, temporary));
  }
  return move_to(temporary, path);
}

std::optional<std::string> read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

template <typename Hash>
Result<std::string> hash_file(Hash hash, const FileDescriptor& file, const std::string& path) {
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return system_error("read", path);
  std::string buffer(kReadBytes, '\0');
  while (true) {
    TINKER_TRY(const auto bytes, base::read_some(file, buffer, path));
    if (bytes.empty()) return base::to_hex(hash.finish());
    hash.update(bytes);
  }
}

}  // namespace

std::string HubPath::to_string() const {
  return base::concat(repository, ": ", name, " at ", revision);
}

bool is_commit(std::string_view revision) noexcept {
  return revision.size() == kCommitDigits && is_hex(revision);
}

Result<void> check(const HubPath& path) {
  if (!is_repository(path.repository)) {
    return invalid("repository", path.repository, "a name like \"Qwen/Qwen3-8B\"");
  }
  for (const auto& [what, value] : {std::pair("revision", std::string_view(path.revision)),
                                    std::pair("file", std::string_view(path.name))}) {
    const auto clean = base::clean_relative_path(value);
    if (!clean || *clean != value) return invalid(what, value, "a plain name");
  }
  return {};
}

fs::path HubCache::folder(const std::string& repository) const {
  std::string name = "models--" + repository;
  if (const auto slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return root_ / name;
}

HubCache::Found HubCache::find(const HubPath& path) const {
  const fs::path home = folder(path.repository);
  const auto commit = is_commit(path.revision) ? std::optional(path.revision)
                                               : read_line(home / "refs" / path.revision);
  if (!commit || !is_commit(*commit)) return {};
  std::error_code error;
  const fs::path file = home / "snapshots" / *commit / path.name;
  if (fs::exists(file, error)) return {.path = file.string()};
  return {.is_absent = fs::exists(home / ".no_exist" / *commit / path.name, error)};
}

bool HubCache::has_blob(const std::string& repository, const std::string& etag) const {
  std::error_code error;
  return fs::exists(folder(repository) / "blobs" / etag, error);
}

Result<std::shared_ptr<IncompleteBlob>> HubCache::open_blob(const std::string& repository,
                                                            const std::string& etag) const {
  const fs::path home = folder(repository);
  const fs::path lock_path = root_ / ".locks" / home.filename() / (etag + ".lock");
  TINKER_TRY(auto lock, open_file(lock_path.string()));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::shared_ptr<IncompleteBlob>();
    return system_error("lock", lock_path.string());
  }
  struct stat info = {};
  if (::fstat(lock.get(), &info) != 0) return system_error("read", lock_path.string());
  // Whoever held it may have removed it: then this is not the one that others see.
  const bool is_stale = info.st_nlink == 0;
  if (is_stale || has_blob(repository, etag)) return std::shared_ptr<IncompleteBlob>();
  const fs::path target = home / "blobs" / etag;
  TINKER_TRY(auto file, open_file(target.string() + ".incomplete"));
  return std::make_shared<IncompleteBlob>(target, etag, std::move(lock), std::move(file));
}

Result<void> HubCache::set_revision(const HubPath& path, const std::string& commit) const {
  if (is_commit(path.revision)) return {};
  const fs::path ref = folder(path.repository) / "refs" / path.revision;
  if (read_line(ref) == commit) return {};
  return put_file(ref.string(), commit);
}

Result<std::string> HubCache::publish(const HubPath& path,
                                      const std::string& commit,
                                      const std::string& etag) const {
  const fs::path home = folder(path.repository);
  const fs::path file = home / "snapshots" / commit / path.name;
  TINKER_TRY(base::make_folders_above(file.string()));
  const fs::path content = (home / "blobs" / etag).lexically_relative(file.parent_path());
  const std::string temporary = name_beside(file.string());
  if (::symlink(content.c_str(), temporary.c_str()) != 0) return system_error("link", temporary);
  TINKER_TRY(move_to(temporary, file.string()));
  TINKER_TRY(set_revision(path, commit));
  return file.string();
}

Result<void> HubCache::note_absent(const HubPath& path, const std::string& commit) const {
  TINKER_TRY(put_file((folder(path.repository) / ".no_exist" / commit / path.name).string(), ""));
  return set_revision(path, commit);
}

std::uint64_t HubCache::incomplete_bytes(const std::string& repository) const {
  std::uint64_t out = 0;
  std::error_code error;
  for (fs::directory_iterator file(folder(repository) / "blobs", error), end; !error && file != end;
       file.increment(error)) {
    if (file->path().extension() != ".incomplete") continue;
    std::error_code gone;
    const auto size = file->file_size(gone);
    if (!gone) out += size;
  }
  return out;
}

IncompleteBlob::IncompleteBlob(fs::path target,
                               std::string etag,
                               FileDescriptor lock,
                               FileDescriptor file)
    : target_(std::move(target)),
      etag_(std::move(etag)),
      lock_(std::move(lock)),
      file_(std::move(file)) {}

Result<std::uint64_t> IncompleteBlob::size() const {
  struct stat info = {};
  if (::fstat(file_.get(), &info) != 0) return system_error("read", path());
  return static_cast<std::uint64_t>(info.st_size);
}

Result<void> IncompleteBlob::cut(std::uint64_t size) const {
  if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) return system_error("cut", path());
  return {};
}

Result<void> IncompleteBlob::write(std::uint64_t offset, std::string_view bytes) const {
  return base::write_at(file_, offset, bytes, path());
}

/// Large files are named by their SHA-256, others as Git names them.
Result<void> IncompleteBlob::verify() const {
  std::string found = etag_;
  if (is_hex(etag_) && etag_.size() == kSha256Digits) {
    TINKER_TRY(found, hash_file(base::Sha256(), file_, path()));
  } else if (is_hex(etag_) && etag_.size() == kCommitDigits) {
    TINKER_TRY(const auto bytes, size());
    base::Sha1 hash;
    hash.update(base::concat("blob ", bytes));
    hash.update(std::string_view("\0", 1));
    TINKER_TRY(found, hash_file(std::move(hash), file_, path()));
  }
  if (found == etag_) return {};
  return Error{
      .code = ErrorCode::conflict,
      .message = base::concat("it came damaged: its checksum is ", found, ", expected ", etag_)};
}

Result<void> IncompleteBlob::finish() const {
  if (const auto verified = verify(); !verified.ok()) {
    TINKER_TRY(cut(0));
    return verified.error();
  }
  if (::fsync(file_.get()) != 0) return system_error("sync", path());
  if (::rename(path().c_str(), target_.c_str()) != 0) return system_error("make", target_.string());
  return {};
}

}  // namespace tinker::tokenizer
