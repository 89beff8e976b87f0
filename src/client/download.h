#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/channel_pool.h"
#include "async/semaphore.h"
#include "async/task.h"
#include "client/checksum.h"
#include "client/download_progress.h"
#include "client/partial_folder.h"
#include "client/rest.h"
#include "tinker/download.h"
#include "tinker/types/tinker_path.h"

namespace tinker::client {

/// What a download was asked for.
struct DownloadRequest {
  TinkerPath path = {};
  std::string folder = {};
  DownloadOptions options = {};
  std::optional<TraceContext> trace = {};
};

/// Brings a checkpoint onto this machine: the files of an external one, else its archive.
async::Task<DownloadedCheckpoint> download_checkpoint(RestState::Source source,
                                                      DownloadRequest request);
Result<void> check_download(const DownloadOptions& options);

// ---- for its own pieces -------------------------------------------------------------------------

/// One download under way. Loop thread only.
struct Download {
  Download(RestState::Source s, DownloadRequest r)
      : source(std::move(s)),
        request(std::move(r)),
        progress(source.runtime, scope, request.options.progress) {}

  RestState::Source source;
  DownloadRequest request;
  std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();
  ProgressReporter progress;
  std::shared_ptr<api::ChannelPool> pool = {};  ///< A connection per request.
  std::shared_ptr<PartialFolder> folder = {};
  /// Told to long work of the workers when nobody waits for it any more.
  std::shared_ptr<std::atomic<bool>> stop = std::make_shared<std::atomic<bool>>(false);
  std::uint64_t bytes_reused = 0;

  /// Signed URLs by clean name. Renewed when storage refuses them.
  std::map<std::string, std::string> urls = {};
  std::uint64_t urls_generation = 0;
  async::Semaphore renewing = async::Semaphore::counting(1);
  async::Semaphore connections =
      async::Semaphore::counting(static_cast<std::int64_t>(request.options.connections));
  async::Semaphore open_files = async::Semaphore::counting(32);

  [[nodiscard]] const std::shared_ptr<async::RuntimeCore>& runtime() const noexcept {
    return source.runtime;
  }
  [[nodiscard]] bool is_archive() const noexcept {
    return request.path.kind != CheckpointType::external;
  }
};

/// A file in storage, and what is known of it.
struct Object {
  std::string name = {};
  std::shared_ptr<PartialFile> file = {};
  /// Once it is known, and it can be fetched in parts.
  std::optional<PartState> parts = {};
  std::uint64_t bytes_reused = 0;  ///< That an earlier call had fetched.
};

/// Which bytes of an object to ask for.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool is_all = false;   ///< Without a range.
  bool is_look = false;  ///< It is there already; only the answer's head counts.
};

/// What storage says of an object.
struct ObjectHead {
  std::uint64_t size = 0;
  bool is_whole = false;  ///< All of it came with this answer.
  bool is_range = false;  ///< It came as a range: there may be others.
  std::string etag = {};  ///< Empty unless it is a strong one.
  ExpectedChecksum checksum = {};
};

/// Asks the API for the URLs, once more if need be.
async::Task<> find_urls(std::shared_ptr<Download> download);

/// Fetches a piece of an object into its file, with retries. Fails with `conflict` and no status
/// when the object is not what `parts` says any more.
async::Task<ObjectHead> fetch_piece(std::shared_ptr<Download> download,
                                    std::shared_ptr<Object> object,
                                    Piece piece);

}  // namespace tinker::client
