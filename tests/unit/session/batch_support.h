#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "session/batch_poller.h"
#include "session/retrieval.h"
#include "unit/session/poll_support.h"

namespace tinker::session {

inline constexpr Completion kFailed = {.kind = Completion::Kind::failed};
inline constexpr Completion kUnknown = {.kind = Completion::Kind::unknown};
inline Completion finished(std::int64_t bytes) {
  return {.kind = Completion::Kind::finished, .payload_bytes = bytes};
}

inline testing::FakeReply completed(const std::vector<std::string>& ids, std::int64_t cursor) {
  std::string list;
  for (const auto& id : ids) {
    list += (list.empty() ? "" : ",") + (R"({"state":"finished","request_id":")" + id + "\"}");
  }
  return json(R"({"completions":[)" + list + R"(],"cursor":)" + std::to_string(cursor) + "}");
}
inline testing::FakeReply nothing(std::int64_t cursor = 0) {
  return completed({}, cursor);
}
inline testing::FakeReply after(std::chrono::nanoseconds delay, testing::FakeReply reply) {
  reply.delay = delay;
  return reply;
}

class BatchPollerTest : public ::testing::Test {
 public:
  BatchPollerTest() { fixture.session->config.sample_use_retrieve_futures = true; }

  void script(std::vector<testing::FakeReply> replies) {
    fixture.server->reply(std::string(kRetrieveFutures), std::move(replies));
  }
  Future<Completion> wait(const std::string& request_id) {
    return fixture.spawn(poller->wait(request_id));
  }
  Future<SampleResponse> await(const std::string& request_id) {
    return fixture.spawn(await_sample<SampleResponse>(
        fixture.session, SampleRoute{.batch = poller}, sample(request_id)));
  }
  void on_loop(UniqueFunction<void()> work) {
    fixture.session->runtime->loop()->post(std::move(work));
    fixture.time.run_ready();
  }
  std::vector<std::chrono::milliseconds> poll_times() { return times(fixture, kRetrieveFutures); }

  SessionFixture fixture;
  std::shared_ptr<BatchPoller> poller =
      std::make_shared<BatchPoller>(fixture.session, "f3c1:sample:1", 5);
};

}  // namespace tinker::session
