#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/runtime_core.h"
#include "async/scope.h"
#include "tinker/download.h"

namespace tinker::client {

/// Counts the bytes of a download and tells the caller, on the callback executor, one call at a
/// time. What throws there cancels `scope`. Loop thread only.
class ProgressReporter {
 public:
  ProgressReporter(std::shared_ptr<async::RuntimeCore> runtime,
                   std::shared_ptr<async::Scope> scope,
                   std::function<void(const DownloadProgress&)> callback);

  /// So many sizes have to be known before there is a total.
  void expect(std::size_t files) { files_ = files; }
  void add_size(std::uint64_t bytes);
  void remove_size(std::uint64_t bytes);
  void add(const std::string& file, std::uint64_t bytes);
  /// They have to be fetched again. Not told: what was reported stays.
  void remove(std::uint64_t bytes) { done_ -= bytes; }
  /// Tells the last time, that everything is there; ready when the caller knows.
  Future<void> finish();

 private:
  struct Mailbox;
  void post();

  std::shared_ptr<async::RuntimeCore> runtime_;
  std::shared_ptr<Mailbox> mailbox_;
  std::string file_ = {};  // of the latest bytes
  std::size_t files_ = 0;
  std::size_t sizes_ = 0;  // known ones
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace tinker::client
