#include "formats/mapped_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/file_descriptor.h"
#include "base/strings.h"

namespace tinker::formats {

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const auto fail = [&path](std::string_view why) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("cannot read ", path.string(), ": ", why)};
  };
  const auto fail_of_system = [&fail] { return fail(std::generic_category().message(errno)); };
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return fail_of_system();
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return fail_of_system();
  if (!S_ISREG(status.st_mode)) return fail("it is no file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile({});
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) return fail_of_system();
  return MappedFile({static_cast<const char*>(memory), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace tinker::formats
