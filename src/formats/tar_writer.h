#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::formats {

/// What comes before a file's content in a tar archive (ustar). Fails with `invalid_argument` for a
/// name that is not 1 to 100 bytes and a size of 8 GiB or more, which the format cannot state.
Result<std::string> tar_file_header(std::string_view name, std::uint64_t size);
/// What comes after a file's content, so that the next header begins where it must.
std::string tar_padding(std::uint64_t size);
/// What ends an archive.
std::string tar_end();

}  // namespace tinker::formats
