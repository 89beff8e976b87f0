// Ten thousand long polls in flight at once, several times over: memory stays flat.
// TINKER_STRESS_POLLS says how many.

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "stress/process_usage.h"
#include "stress/stress_client.h"

namespace tinker::stress::long_polls_test {
namespace {

using std::chrono::minutes;

constexpr int kRounds = 4;
// What a process needs besides one descriptor per HTTP/1.1 connection.
constexpr std::size_t kOtherDescriptors = 100;
// A poll with its coroutines, its future and its buffers; HTTP/1.1 has a connection for each.
constexpr std::size_t kMaxBytesPerPoll = std::size_t{16} << 10U;
constexpr std::size_t kMaxGrowth = std::size_t{4} << 20U;

class LongPolls : public ::testing::TestWithParam<Wire> {
 protected:
  std::vector<Future<http::Response>> start_polls(std::size_t count) {
    std::vector<Future<http::Response>> polls;
    polls.reserve(count);
    const auto body =
        std::make_shared<const std::string>(R"({"request_id":"r-1-1","allow_metadata_only":true})");
    for (std::size_t i = 0; i < count; ++i) {
      polls.push_back(client_.start({.path = "/api/v1/retrieve_future",
                                     .query = "fault=hold",
                                     .body = body,
                                     .headers = {{"Accept", "application/x-protobuf"}},
                                     .pool = api::PoolKind::retrieve_promise,
                                     .timeout = minutes(10),
                                     .max_retries = 0}));
    }
    return polls;
  }

  std::string ask(std::string path) {
    auto answer = client_.start({.method = http::Method::get, .path = std::move(path)}).get();
    EXPECT_TRUE(answer.ok());
    return answer.ok() ? answer->body : std::string();
  }

  void wait_until_held(std::size_t count) {
    const auto wanted = base::concat(R"("held":)", count, ",");
    while (ask("/stats").find(wanted) == std::string::npos && !HasFailure()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  /// As many as asked for, or as the hard limit of descriptors allows.
  static std::size_t possible_polls() {
    const auto wanted = number_from_environment("TINKER_STRESS_POLLS", 10'000);
    const std::size_t descriptors = raise_descriptor_limit();
    if (GetParam() == Wire::h2 || wanted + kOtherDescriptors <= descriptors) return wanted;
    const std::size_t possible = descriptors - kOtherDescriptors;
    std::printf("the hard limit of %zu descriptors allows %zu polls over HTTP/1.1, not %zu\n",
                descriptors,
                possible,
                wanted);
    return possible;
  }

  const std::size_t count_ = possible_polls();
  ServerProcess server_;
  StressClient client_{server_, GetParam()};
};

TEST_P(LongPolls, StayFlatInMemory) {
  const std::size_t before = resident_bytes();
  std::vector<std::size_t> peaks;
  for (int round = 0; round < kRounds; ++round) {
    auto polls = start_polls(count_);
    wait_until_held(count_);
    peaks.push_back(resident_bytes());
    ask("/release");
    for (auto& poll : polls) {
      const auto answer = poll.get();
      ASSERT_TRUE(answer.ok()) << answer.error().to_string();
    }
  }
  const std::size_t per_poll = (peaks.front() - before) / count_;
  std::printf("%zu polls: %zu bytes each;", count_, per_poll);
  for (const auto peak : peaks) std::printf(" %.1f", static_cast<double>(peak) / 1e6);
  std::printf(" MB in flight, %.1f MB after\n", static_cast<double>(resident_bytes()) / 1e6);
  if (kIsSanitized) return;
  EXPECT_LT(per_poll, kMaxBytesPerPoll);
  // The first round also fills what stays: allocator, code pages, TLS sessions.
  EXPECT_LT(peaks.back(), peaks[1] + kMaxGrowth);
}

INSTANTIATE_TEST_SUITE_P(Over,
                         LongPolls,
                         ::testing::Values(Wire::h1, Wire::h2),
                         [](const auto& of) { return to_string(of.param); });

}  // namespace
}  // namespace tinker::stress::long_polls_test
