#pragma once

#include <filesystem>

#include "tinker/result.h"

namespace tinker::server {

/// Makes the folder `to`, in one that is there, with the files of `from`, which stay when `from`
/// goes: hard links, or copies where a link cannot be. On the disk when it returns. If it fails,
/// there is no `to`.
Result<void> link_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tinker::server
