#include "client/download_progress.h"

#include <algorithm>
#include <utility>

namespace tinker::client {

/// The latest news, until the caller's thread has time for it.
struct ProgressReporter::Mailbox {
  std::function<void(const DownloadProgress&)> callback;
  std::weak_ptr<async::Scope> scope;
  std::shared_ptr<async::EventLoop> loop;
  detail::Mutex mutex = {};
  std::optional<DownloadProgress> latest TINKER_GUARDED_BY(mutex) = {};
  bool is_posted TINKER_GUARDED_BY(mutex) = false;
  std::optional<Promise<void>> finished TINKER_GUARDED_BY(mutex) = {};

  /// Callback executor. Goes on until there is no news, so that no two calls overlap.
  void deliver() {
    while (true) {
      DownloadProgress news;
      std::optional<Promise<void>> last;
      {
        const detail::MutexLock lock(mutex);
        if (!latest) {
          is_posted = false;
          return;
        }
        news = *std::exchange(latest, std::nullopt);
        last = std::exchange(finished, std::nullopt);
      }
      Result<void> outcome = call(news);
      if (!outcome.ok()) {
        callback = nullptr;  // once is enough
        loop->post([weak = scope, error = outcome.error()] {
          if (const auto alive = weak.lock()) alive->cancel(error);
        });
      }
      if (last) last->set(std::move(outcome));
    }
  }
  Result<void> call(const DownloadProgress& news) const {
    try {
      if (callback) callback(news);
      return {};
    } catch (...) {
      Error error = detail::error_from_current_exception("the progress callback threw");
      error.code = ErrorCode::internal;
      return error;
    }
  }
};

ProgressReporter::ProgressReporter(std::shared_ptr<async::RuntimeCore> runtime,
                                   std::shared_ptr<async::Scope> scope,
                                   std::function<void(const DownloadProgress&)> callback)
    : runtime_(std::move(runtime)), mailbox_(callback ? std::make_shared<Mailbox>() : nullptr) {
  if (!mailbox_) return;
  mailbox_->callback = std::move(callback);
  mailbox_->scope = scope;
  mailbox_->loop = runtime_->loop();
}

void ProgressReporter::add_size(std::uint64_t bytes) {
  ++sizes_;
  total_ += bytes;
}

void ProgressReporter::remove_size(std::uint64_t bytes) {
  --sizes_;
  total_ -= bytes;
}

void ProgressReporter::add(const std::string& file, std::uint64_t bytes) {
  done_ += bytes;
  if (done_ <= told_) return;
  file_ = file;
  post();
}

void ProgressReporter::post() {
  if (!mailbox_) return;
  told_ = std::max(told_, done_);
  DownloadProgress news = {.file = file_, .bytes_done = told_};
  if (sizes_ == files_) news.bytes_total = std::max(total_, told_);
  {
    const detail::MutexLock lock(mailbox_->mutex);
    mailbox_->latest = std::move(news);
    if (std::exchange(mailbox_->is_posted, true)) return;
  }
  runtime_->callbacks()->post([mailbox = mailbox_] { mailbox->deliver(); });
}

Future<void> ProgressReporter::finish() {
  if (!mailbox_) return Future<void>::ready(Result<void>());
  Promise<void> promise(runtime_->loop());
  auto future = promise.future();
  {
    const detail::MutexLock lock(mailbox_->mutex);
    mailbox_->finished = std::move(promise);
  }
  post();
  return future;
}

}  // namespace tinker::client
