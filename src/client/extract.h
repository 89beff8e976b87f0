#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tinker/download.h"
#include "tinker/result.h"

namespace tinker::client {

/// Unpacks a tar archive, compressed by gzip or not, into `folder`, which exists and is empty: its
/// files and folders, synced. Blocks. Fails with `invalid_response` for an archive that is damaged,
/// cut short, empty, unpacks to more than `max_bytes`, or would reach outside the folder; with
/// `cancelled` once `stop` is set.
Result<std::vector<DownloadedFile>> extract_archive(const std::string& archive,
                                                    const std::string& folder,
                                                    std::uint64_t max_bytes,
                                                    const std::atomic<bool>& stop);

}  // namespace tinker::client
