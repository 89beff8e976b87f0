#include "http/write_queue.h"

#include <atomic>
#include <deque>
#include <utility>

#include "tinker/detail/mutex.h"

namespace tinker::http {

namespace {

constexpr std::size_t kWriteBytes = std::size_t{1} << 20U;
constexpr std::size_t kMaxPending = 4 * kWriteBytes;

struct QueuedPiece {
  std::uint64_t offset = 0;
  std::string bytes = {};
};

}  // namespace

/// What the loop and the worker share.
struct WriteQueue::Pieces {
  explicit Pieces(Write w) : write(std::move(w)) {}

  /// Whether somebody has to begin with it.
  bool push(QueuedPiece piece) {
    pending += piece.bytes.size();
    const detail::MutexLock lock(mutex);
    waiting.push_back(std::move(piece));
    return !std::exchange(is_worked_on, true);
  }
  std::optional<QueuedPiece> pop() {
    const detail::MutexLock lock(mutex);
    if (waiting.empty()) {
      is_worked_on = false;
      return std::nullopt;
    }
    QueuedPiece piece = std::move(waiting.front());
    waiting.pop_front();
    return piece;
  }
  /// What comes after an error is dropped.
  Result<void> work() {
    while (const auto piece = pop()) {
      if (outcome().ok()) {
        auto written = write(piece->offset, piece->bytes);
        const detail::MutexLock lock(mutex);
        result = std::move(written);
      }
      pending -= piece->bytes.size();
    }
    return outcome();
  }
  Result<void> outcome() {
    const detail::MutexLock lock(mutex);
    return result;
  }

  Write write;
  std::atomic<std::size_t> pending = 0;
  detail::Mutex mutex = {};
  std::deque<QueuedPiece> waiting TINKER_GUARDED_BY(mutex) = {};
  bool is_worked_on TINKER_GUARDED_BY(mutex) = false;
  Result<void> result TINKER_GUARDED_BY(mutex) = {};
};

WriteQueue::WriteQueue(std::shared_ptr<async::RuntimeCore> runtime, Write write)
    : runtime_(std::move(runtime)), pieces_(std::make_shared<Pieces>(std::move(write))) {}

Result<void> WriteQueue::add(std::string_view bytes) {
  buffer_ += bytes;
  end_ += bytes.size();
  if (buffer_.size() >= kWriteBytes) flush();
  return pieces_->outcome();
}

bool WriteQueue::has_room() const noexcept {
  return pieces_->pending + buffer_.size() < kMaxPending;
}

void WriteQueue::flush() {
  if (buffer_.empty()) return;
  const std::uint64_t offset = end_ - buffer_.size();
  if (!pieces_->push({.offset = offset, .bytes = std::exchange(buffer_, {})})) return;
  working_ = runtime_->offload([pieces = pieces_] { return pieces->work(); });
}

async::Task<> WriteQueue::drain(std::shared_ptr<WriteQueue> self) {
  self->flush();
  if (!self->working_) co_return Result<void>();
  auto wait = async::until(*std::exchange(self->working_, {}));
  co_return co_await wait;
}

}  // namespace tinker::http
