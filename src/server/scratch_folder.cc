#include "server/scratch_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>

#include "base/files.h"
#include "base/strings.h"

namespace tinker::server {

namespace fs = std::filesystem;

Result<std::shared_ptr<const ScratchFolder>> ScratchFolder::create(std::string_view prefix) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat("no folder for temporary files: ", error.message())};
  }
  std::string name = (parent / base::concat(prefix, "-XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) return base::system_error("make", name);
  return std::shared_ptr<const ScratchFolder>(new ScratchFolder(fs::canonical(name, error)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tinker::server
