#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "tinker/result.h"

// Files, for those who may block. `path` names the file in errors.
namespace tinker::base {

/// "open /a/b: no such file or directory", of the last error of the system.
Error system_error(std::string_view what, std::string_view path);

/// Makes the folders above `path` that are not there.
Result<void> make_folders_above(const std::string& path);

/// So that what was made, named or removed in it survives a power cut, where the file system can
/// promise that.
Result<void> sync_folder(const std::string& path);

/// Swaps two folders or files: at once where the file system can do that, otherwise as
/// `swap_names_in_steps` does.
Result<void> swap_names(const std::string& from, const std::string& to);
/// There is a moment without a `to`. If it cannot be done, all is as it was, or the error says
/// where `to` is now.
Result<void> swap_names_in_steps(const std::string& from, const std::string& to);
/// Fails if there is something of that name.
Result<void> move_to_new_name(const std::string& from, const std::string& to);

/// What comes next, as much as fits into `buffer`; empty at the end.
Result<std::string_view> read_some(const FileDescriptor& file,
                                   std::string& buffer,
                                   std::string_view path);
Result<void> write_all(const FileDescriptor& file, std::string_view bytes, std::string_view path);
/// The same wherever in the file it belongs.
Result<void> write_at(const FileDescriptor& file,
                      std::uint64_t offset,
                      std::string_view bytes,
                      std::string_view path);

}  // namespace tinker::base
