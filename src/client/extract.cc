#include "client/extract.h"

#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/gunzip.h"
#include "formats/tar.h"

namespace tinker::client {

using base::FileDescriptor;
using base::make_folders_above;
using base::system_error;
using formats::TarEntry;

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

/// Writes the entries of an archive below a folder. Links are never made, so names that are safe
/// stay below it.
class Extractor final : public formats::TarSink {
 public:
  explicit Extractor(std::string folder) : folder_(std::move(folder)) {}

  Result<void> begin(const TarEntry& entry) override {
    path_ = base::concat(folder_, "/", entry.name);
    if (entry.kind == TarEntry::Kind::folder) return make_folders_above(path_ + "/");
    TINKER_TRY(make_folders_above(path_));
    file_ = FileDescriptor(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file_.is_open()) return system_error("make", path_);
    files_.push_back({.name = entry.name, .size = entry.size});
    return {};
  }
  Result<void> write(std::string_view piece) override { return write_all(file_, piece, path_); }
  Result<void> end() override {
    if (!file_.is_open()) return {};
    if (::fsync(file_.get()) != 0) return system_error("sync", path_);
    if (::close(file_.release()) != 0) return system_error("close", path_);
    return {};
  }
  [[nodiscard]] std::vector<DownloadedFile> take_files() { return std::move(files_); }

 private:
  std::string folder_;
  std::string path_ = {};
  FileDescriptor file_ = {};
  std::vector<DownloadedFile> files_ = {};
};

}  // namespace

Result<std::vector<DownloadedFile>> extract_archive(const std::string& archive,
                                                    const std::string& folder,
                                                    std::uint64_t max_bytes,
                                                    const std::atomic<bool>& stop) {
  const FileDescriptor file(::open(archive.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) return system_error("open", archive);
  Extractor extractor(folder);
  formats::TarReader tar(extractor, {.max_bytes = max_bytes});
  std::optional<formats::Gunzip> unpacking;
  std::string buffer(kReadBytes, '\0');
  for (bool is_first = true;; is_first = false) {
    if (stop) return Error{.code = ErrorCode::cancelled, .message = "the download was stopped"};
    TINKER_TRY(const auto piece, read_some(file, buffer, archive));
    if (piece.empty()) break;
    if (is_first && formats::is_gzip(piece)) {
      unpacking.emplace([&tar](std::string_view bytes) { return tar.put(bytes); });
    }
    TINKER_TRY(unpacking ? unpacking->put(piece) : tar.put(piece));
  }
  if (unpacking) {
    TINKER_TRY(unpacking->finish());
  }
  TINKER_TRY(tar.finish());
  auto files = extractor.take_files();
  if (files.empty()) {
    return Error{.code = ErrorCode::invalid_response, .message = "the archive holds no files"};
  }
  return files;
}

}  // namespace tinker::client
