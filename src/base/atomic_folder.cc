#include "base/atomic_folder.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/strings.h"

namespace tinker::base {

namespace fs = std::filesystem;

Result<AtomicFolder> AtomicFolder::create(const std::string& path) {
  std::error_code error;
  auto named = fs::absolute(path, error).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // it ended with a slash
  if (error || path.empty() || !named.has_filename()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = concat("expected a folder that can be made, found '", path, "'")};
  }
  TINKER_TRY(make_folders_above(named.string()));
  constexpr mode_t kMode = 0777;  // what the umask leaves of it
  for (unsigned attempt = 0;; ++attempt) {
    auto written = concat(named.string(), ".", attempt, ".incomplete");
    if (::mkdir(written.c_str(), kMode) == 0) return AtomicFolder(named.string(), written);
    if (errno != EEXIST) return system_error("make", written);
  }
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!written_.empty()) fs::remove_all(written_, ignored);
}

Result<void> AtomicFolder::write(std::string_view name, std::string_view bytes) const {
  TINKER_TRY(auto file, AtomicFile::create(concat(written_, "/", name)));
  TINKER_TRY(file.write(bytes));
  return file.commit();
}

Result<void> AtomicFolder::commit() {
  TINKER_TRY(sync_folder(written_));
  struct stat info = {};
  const bool is_replaced = ::lstat(path_.c_str(), &info) == 0;
  TINKER_TRY(is_replaced ? swap_names(written_, path_) : move_to_new_name(written_, path_));
  TINKER_TRY(sync_folder(fs::path(path_).parent_path().string()));
  std::error_code ignored;  // it is complete, whatever is left beside it
  if (is_replaced) fs::remove_all(written_, ignored);
  written_.clear();
  return {};
}

}  // namespace tinker::base
