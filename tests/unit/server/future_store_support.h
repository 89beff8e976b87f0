#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "async/runtime_core.h"
#include "server/future_store.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::server {

/// A store in virtual time, and polls of its clients. The owner is "me" where nothing is said.
class FutureStoreTest : public ::testing::Test {
 protected:
  void make(FutureLimits limits) { store_ = std::make_unique<FutureStore>(core_->loop(), limits); }
  void open(std::string id) { store_->open({.request_id = std::move(id), .owner = "me"}); }
  /// A sample of clone `clone` of the sampling session "s".
  void open_sample(std::string id, std::int64_t clone = 0) {
    store_->open({.request_id = std::move(id), .owner = "me", .target = target(clone)});
  }
  void finish(const std::string& id, std::string body = "done") {
    store_->finish(id, EncodedResult{.body = std::move(body)});
  }
  /// One whose answer was sent.
  void deliver(const std::string& id, std::string body = "done") {
    open(id);
    finish(id, std::move(body));
    store_->delivered(id);
  }

  Future<PollAnswer> start_poll(std::string id, bool allow_metadata_only = false) {
    return start(store_->poll(std::move(id), "me", allow_metadata_only));
  }
  Future<FuturesRetrieveResponse> start_poll_all(FuturesRetrieveRequest request) {
    return start(store_->poll_all(std::move(request), "me"));
  }
  PollAnswer poll(std::string id) { return start_poll(std::move(id)).get().value(); }
  FuturesRetrieveResponse poll_all(std::int64_t prev_cursor,
                                   std::vector<std::string> retrieved = {}) {
    return start_poll_all({.target = target(0),
                           .prev_cursor = prev_cursor,
                           .retrieved_request_ids = std::move(retrieved)})
        .get()
        .value();
  }
  template <typename T>
  Future<T> start(async::Task<T> task) {
    auto future = core_->spawn(core_->scope(), std::move(task));
    time_.run_ready();
    return future;
  }

  static SamplingSessionFuturesTarget target(std::int64_t clone) {
    return {.sampling_session_id = "s", .cloned_sampler_id = clone};
  }
  /// The body of a `Ready`, "410", "404", "408", the text of an error, or the size alone.
  static std::string text(const PollAnswer& answer) {
    if (const auto* ready = std::get_if<Ready>(&answer)) return ready->result->body;
    if (const auto* error = std::get_if<Error>(&answer)) return error->message;
    if (const auto* large = std::get_if<TooLarge>(&answer)) return std::to_string(large->bytes);
    if (std::holds_alternative<Expired>(answer)) return "410";
    return std::holds_alternative<UnknownId>(answer) ? "404" : "408";
  }
  std::string polled(std::string id) { return text(poll(std::move(id))); }
  /// "r-1" of a finished request, "r-1!" of one that failed.
  static std::vector<std::string> ids(const FuturesRetrieveResponse& response) {
    std::vector<std::string> out;
    for (const auto& completion : response.completions) {
      const auto* finished = std::get_if<FutureFinished>(&completion);
      const auto* failed = std::get_if<FutureFailed>(&completion);
      out.push_back(finished != nullptr ? finished->request_id : failed->request_id + "!");
    }
    return out;
  }

  testing::VirtualRuntime time_;
  std::shared_ptr<async::RuntimeCore> core_ = time_.runtime().core();
  std::unique_ptr<FutureStore> store_ =
      std::make_unique<FutureStore>(core_->loop(), FutureLimits());
};

}  // namespace tinker::server
