#include "session/credential_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file_descriptor.h"
#include "base/strings.h"

namespace tinker::session {

namespace {

using base::FileDescriptor;

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr mode_t kOwnerOnlyFolder = 0700;
constexpr mode_t kOwnerOnlyFile = 0600;

Error failed(std::string_view what, const std::string& path, int error) {
  return {.code = ErrorCode::io_error,
          .message = base::concat(
              "cannot ", what, " '", path, "': ", std::generic_category().message(error))};
}

Result<std::string> read_all(const FileDescriptor& file, const std::string& path) {
  std::string out;
  std::string buffer(4096, '\0');
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("read", path, errno);
    if (count == 0) return out;
    out.append(buffer, 0, static_cast<std::size_t>(count));
    if (out.size() > kMaxFileBytes) {
      return Error{.code = ErrorCode::io_error,
                   .message = base::concat(
                       "cannot read '", path, "': longer than ", kMaxFileBytes, " bytes")};
    }
  }
}

Result<void> write_all(const FileDescriptor& file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> make_private_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), kOwnerOnlyFolder) != 0) {
    // Another process may have been faster; a file in its place is an error.
    if (errno == EEXIST && std::filesystem::is_directory(folder, error)) return {};
    return failed("make the folder", folder.string(), errno);
  }
  // The umask may have taken more away.
  if (::chmod(folder.c_str(), kOwnerOnlyFolder) != 0) {
    return failed("protect the folder", folder.string(), errno);
  }
  return {};
}

/// A file that is removed again unless it takes the place of the real one.
class TemporaryFile {
 public:
  static Result<TemporaryFile> create(const std::filesystem::path& beside) {
    auto name =
        (beside.parent_path() / base::concat(".", beside.filename().string(), ".XXXXXX")).string();
    FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
    if (!file.is_open()) return failed("make a file beside", beside.string(), errno);
    return TemporaryFile(std::move(file), std::move(name));
  }
  TemporaryFile(TemporaryFile&& other) noexcept
      : file_(std::move(other.file_)), name_(std::exchange(other.name_, {})) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  [[nodiscard]] const FileDescriptor& file() const noexcept { return file_; }
  /// What was written is on the disk, then in place.
  Result<void> replace(const std::string& path) {
    if (::fsync(file_.get()) != 0 || ::close(file_.release()) != 0) {
      return failed("write", path, errno);
    }
    if (::rename(name_.c_str(), path.c_str()) != 0) return failed("replace", path, errno);
    name_.clear();
    return {};
  }

 private:
  TemporaryFile(FileDescriptor file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  FileDescriptor file_;
  std::string name_;
};

/// So that the new name survives a power cut, where the file system can promise that.
void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.is_open()) ::fsync(file.get());
}

}  // namespace

std::string credentials_path(std::string_view home) {
  return (std::filesystem::path(home) / ".tinker" / "credentials.json").string();
}

Result<CredentialFile> read_credentials(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return CredentialFile();
    return failed("read", path, errno);
  }
  TINKER_TRY(const auto text, read_all(file, path));
  auto credentials = parse_credentials(text);
  if (!credentials) return std::move(credentials).error().with_context(path);
  return credentials;
}

Result<void> write_credentials(const std::string& path, const CredentialFile& file) {
  auto text = print_credentials(file);
  if (!text) return std::move(text).error().with_context(path);
  const auto target = std::filesystem::absolute(path);
  TINKER_TRY(make_private_folder(target.parent_path()));
  TINKER_TRY(auto temporary, TemporaryFile::create(target));
  if (::fchmod(temporary.file().get(), kOwnerOnlyFile) != 0) return failed("protect", path, errno);
  TINKER_TRY(write_all(temporary.file(), *text, path));
  TINKER_TRY(temporary.replace(target.string()));
  sync_folder(target.parent_path());
  return {};
}

}  // namespace tinker::session
