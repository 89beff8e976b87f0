#include "tinker/testing/fake_transport.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

#include "async/runtime_core.h"
#include "base/strings.h"

namespace tinker::testing {

namespace {

/// The path of an absolute URL.
std::string path_of(std::string_view url) {
  const auto scheme = url.find("://");
  const auto begin = url.find('/', scheme == std::string_view::npos ? 0 : scheme + 3);
  if (begin == std::string_view::npos) return "/";
  return std::string(url.substr(begin, url.find_first_of("?#", begin) - begin));
}

}  // namespace

struct FakeTransport::State : std::enable_shared_from_this<State> {
  explicit State(const Runtime& runtime)
      : loop(runtime.core()->loop()), start(loop->clock().now()) {}

  FakeReply answer(const http::Request& request, const std::string& path) {
    Handler handler;
    {
      const detail::MutexLock lock(mutex);
      auto newest_first = handlers | std::views::reverse;
      const auto found = std::ranges::find_if(
          newest_first, [&](const auto& entry) { return path.ends_with(entry.first); });
      if (found != newest_first.end()) handler = found->second;
    }
    if (handler) return handler(request);
    return {.status = 404,
            .body = base::concat(R"({"detail":"nothing is scripted for )", path, "\"}")};
  }

  /// Ends request `index`, unless that has happened.
  void finish(std::size_t index, Result<http::Response> result) {
    std::optional<Promise<http::Response>> promise;
    {
      const detail::MutexLock lock(mutex);
      const auto found = open.find(index);
      if (found == open.end()) return;
      promise.emplace(std::move(found->second));
      open.erase(found);
    }
    promise->set(std::move(result));
  }

  bool is_open(std::size_t index) {
    const detail::MutexLock lock(mutex);
    return open.contains(index);
  }

  void deliver(std::size_t index, FakeReply reply, http::BodySink* sink) {
    if (reply.error && (sink == nullptr || reply.body.empty())) {
      return finish(index, *std::move(reply.error));
    }
    if (!reply.no_length && !reply.headers.contains("content-length")) {
      reply.headers.set("content-length", std::to_string(reply.body.size()));
    }
    http::Response response = {.status = reply.status, .headers = std::move(reply.headers)};
    if (sink == nullptr || reply.body.empty()) {
      response.body = std::move(reply.body);
      return finish(index, std::move(response));
    }
    if (!is_open(index)) return;
    auto taken = sink->begin(response);
    if (taken.ok()) taken = sink->write(reply.body);
    if (!taken.ok()) return finish(index, taken.error());
    if (reply.error) return finish(index, *std::move(reply.error));
    finish(index, std::move(response));
  }

  void cancel(std::size_t index) {
    {
      const detail::MutexLock lock(mutex);
      requests[index].is_cancelled = true;
    }
    finish(index, Error{.code = ErrorCode::cancelled, .message = "cancelled"});
  }

  std::shared_ptr<async::EventLoop> loop;
  async::TimePoint start;
  detail::Mutex mutex;
  std::vector<std::pair<std::string, Handler>> handlers TINKER_GUARDED_BY(mutex);
  std::vector<Sent> requests TINKER_GUARDED_BY(mutex);
  std::vector<std::uint64_t> closed TINKER_GUARDED_BY(mutex);
  std::map<std::size_t, Promise<http::Response>> open TINKER_GUARDED_BY(mutex);
};

FakeTransport::FakeTransport(const Runtime& runtime) : state_(std::make_shared<State>(runtime)) {}
FakeTransport::~FakeTransport() = default;

void FakeTransport::handle(std::string path, Handler handler) {
  const detail::MutexLock lock(state_->mutex);
  std::erase_if(state_->handlers, [&](const auto& entry) { return entry.first == path; });
  state_->handlers.emplace_back(std::move(path), std::move(handler));
}

void FakeTransport::reply(std::string path, std::vector<FakeReply> replies) {
  TINKER_CHECK(!replies.empty());
  const auto next = std::make_shared<std::size_t>(0);  // shared by the copies of the handler
  handle(std::move(path), [replies = std::move(replies), next](const http::Request&) {
    return replies[*next + 1 < replies.size() ? (*next)++ : *next];
  });
}

std::vector<FakeTransport::Sent> FakeTransport::sent(std::string_view path) const {
  const detail::MutexLock lock(state_->mutex);
  std::vector<Sent> out;
  for (const auto& request : state_->requests) {
    if (request.path.ends_with(path)) out.push_back(request);
  }
  return out;
}

std::size_t FakeTransport::in_flight() const {
  const detail::MutexLock lock(state_->mutex);
  return state_->open.size();
}

std::vector<std::uint64_t> FakeTransport::closed_channels() const {
  const detail::MutexLock lock(state_->mutex);
  return state_->closed;
}

void FakeTransport::close_channel(std::uint64_t channel) {
  const detail::MutexLock lock(state_->mutex);
  state_->closed.push_back(channel);
}

Future<http::Response> FakeTransport::send(http::Request request) {
  Promise<http::Response> promise(state_->loop);
  auto future = promise.future();
  std::string path = path_of(request.url);
  std::size_t index = 0;
  {
    const detail::MutexLock lock(state_->mutex);
    index = state_->requests.size();
    state_->requests.push_back(
        {.request = request, .path = path, .at = state_->loop->clock().now() - state_->start});
    state_->requests.back().request.sink.reset();  // whoever waits for the answer holds it
  }
  promise.on_cancel([weak = std::weak_ptr(state_), index] {
    if (const auto state = weak.lock()) state->cancel(index);
  });
  {
    const detail::MutexLock lock(state_->mutex);
    state_->open.emplace(index, std::move(promise));
  }
  state_->loop->post([state = state_, index, request = std::move(request), path = std::move(path)] {
    auto reply = state->answer(request, path);
    if (reply.never) return;
    const auto sink = request.sink;
    if (reply.delay.count() == 0) return state->deliver(index, std::move(reply), sink.get());
    const auto delay = reply.delay;
    state->loop->schedule_after(delay, [state, index, sink, reply = std::move(reply)]() mutable {
      state->deliver(index, std::move(reply), sink.get());
    });
  });
  return future;
}

}  // namespace tinker::testing
