// Requests in random mixes of faults: every future ends, with the class of result its fault
// implies, and nothing is left behind. TINKER_STRESS_REQUESTS says how many.

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "stress/process_usage.h"
#include "stress/stress_client.h"
#include "tinker/rng.h"

namespace tinker::stress::fault_mix_test {
namespace {

using api::PoolKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kInFlight = 200;
constexpr seconds kForever{120};

/// Who feels a fault: the request alone, or all that share its connection.
enum class Hits { request, connection };
enum class Ends { by_itself, by_cancel, by_either };

struct Case {
  const char* plan = "";
  std::optional<ErrorCode> result = {};  ///< Nothing: a good answer.
  int status = 0;                        ///< Of the error.
  Hits h1 = Hits::request;
  Hits h2 = Hits::request;
  Ends ends = Ends::by_itself;
  int max_retries = 0;
  std::optional<milliseconds> timeout = {};
  std::optional<milliseconds> deadline = {};
};

constexpr auto kBroken = ErrorCode::connection_failed;
constexpr auto kInvalid = ErrorCode::invalid_response;
constexpr auto kTimedOut = ErrorCode::timed_out;
constexpr auto kCancelled = ErrorCode::cancelled;
constexpr auto kTooLate = ErrorCode::deadline_exceeded;
constexpr auto kAll = Hits::connection;

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {.plan = "fault=none"},
      {.plan = "delay_max_ms=20"},
      {.plan = "bytes=200000"},
      {.plan = "fault=drip&drip_ms=2"},
      {.plan = "fault=close", .h1 = kAll, .h2 = kAll},
      {.plan = "fault=goaway_served", .h1 = kAll, .h2 = kAll},
      {.plan = "status=402", .result = ErrorCode::billing, .status = 402},
      {.plan = "status=408", .result = ErrorCode::unexpected_status, .status = 408},
      {.plan = "status=409", .result = ErrorCode::conflict, .status = 409},
      {.plan = "status=410", .result = ErrorCode::expired, .status = 410},
      {.plan = "status=429&retry_after=1", .result = ErrorCode::rate_limited, .status = 429},
      {.plan = "status=500", .result = ErrorCode::server_error, .status = 500},
      {.plan = "status=503&retry_after_ms=5&delay_max_ms=5",
       .result = ErrorCode::server_error,
       .status = 503},
      // Storms that pass: Retry-After is obeyed and the last attempt succeeds.
      {.plan = "status=408&retry_after_ms=1&until=3", .max_retries = 3},
      {.plan = "status=429&retry_after=0.01&until=2", .max_retries = 3},
      {.plan = "status=502&retry_after_ms=10&until=1", .max_retries = 1},
      {.plan = "status=503&retry_after_ms=1",
       .result = ErrorCode::server_error,
       .status = 503,
       .max_retries = 2},
      {.plan = "fault=drop", .result = kBroken, .h1 = kAll, .h2 = kAll},
      {.plan = "fault=drop&delay_max_ms=5", .result = kBroken, .h1 = kAll, .h2 = kAll},
      {.plan = "fault=drop_after_headers", .result = kBroken, .h1 = kAll, .h2 = kAll},
      {.plan = "fault=truncate", .result = kBroken, .h1 = kAll},
      {.plan = "fault=reset", .result = kBroken, .h1 = kAll, .h2 = kAll},
      {.plan = "fault=garbage", .result = kBroken, .h1 = kAll, .h2 = kAll},
      {.plan = "fault=big_headers", .result = kInvalid, .h1 = kAll},
      {.plan = "fault=bad_chunk", .result = kBroken, .h1 = kAll},
      {.plan = "fault=bad_gzip", .result = kInvalid},
      {.plan = "fault=rst_stream", .result = kBroken, .h1 = kAll},
      {.plan = "fault=refused_stream", .result = kBroken, .h1 = kAll},
      {.plan = "fault=goaway", .result = kBroken, .h1 = kAll, .h2 = kAll},
      {.plan = "fault=hang", .result = kTimedOut, .timeout = milliseconds(100)},
      {.plan = "fault=stall", .result = kTimedOut, .timeout = milliseconds(100)},
      {.plan = "fault=stall&bytes=100000", .result = kTimedOut, .timeout = milliseconds(150)},
      {.plan = "fault=hang", .result = kTooLate, .deadline = milliseconds(30)},
      {.plan = "fault=drip&bytes=100000&drip_ms=20",
       .result = kTooLate,
       .deadline = milliseconds(60)},
      {.plan = "fault=hang", .result = kCancelled, .ends = Ends::by_cancel},
      {.plan = "fault=stall", .result = kCancelled, .ends = Ends::by_cancel},
      {.plan = "delay_max_ms=10", .ends = Ends::by_either},
      {.plan = "bytes=300000", .ends = Ends::by_either},
  };
  return all;
}

/// What happened, in the words of a `Case`.
std::string describe(const Result<http::Response>& result) {
  if (result.ok()) return base::concat("ok ", result->status);
  return base::concat(to_string(result.error().code), ": ", result.error().to_string());
}

bool is_as_planned(const Case& plan, const Result<http::Response>& result) {
  if (plan.ends == Ends::by_either && !result.ok()) return result.error().code == kCancelled;
  if (!plan.result) return result.ok() && result->status == 200;
  return !result.ok() && result.error().code == *plan.result &&
         result.error().http_status == plan.status;
}

class FaultMix : public ::testing::TestWithParam<Wire> {
 protected:
  struct Pending {
    const Case* plan;
    Future<http::Response> future;
  };

  Future<http::Response> start(const Case& plan, PoolKind pool) {
    api::Call call = {.path = "/api/v1/any",
                      .query = plan.plan,
                      .body = std::make_shared<const std::string>(R"({"some":"request"})"),
                      .pool = pool,
                      .timeout = plan.timeout,
                      .max_retries = plan.max_retries};
    return client_.start(std::move(call), {.deadline = plan.deadline});
  }

  /// Waits for the oldest one.
  Result<http::Response> finish(Pending& pending) {
    if (pending.plan->ends != Ends::by_itself) pending.future.cancel();
    auto result = pending.future.get(kForever);
    EXPECT_TRUE(pending.future.is_ready()) << pending.plan->plan << " never ended";
    return result;
  }

  /// Runs `count` random cases, a few hundred at a time; `check` sees each result.
  template <typename PoolOf, typename Check>
  void run(std::size_t count, PoolOf pool_of, Check check) {
    std::deque<Pending> pending;
    const auto finish_first = [&] {
      Pending first = std::move(pending.front());
      pending.pop_front();
      check(*first.plan, finish(first));
    };
    for (std::size_t i = 0; i < count && !HasFailure(); ++i) {
      const Case& plan = cases()[rng_.below(cases().size())];
      pending.push_back({&plan, start(plan, pool_of(plan))});
      // Some are cancelled before they have begun, others while they wait for their answer.
      if (plan.ends != Ends::by_itself && rng_.below(2) == 0) pending.back().future.cancel();
      if (pending.size() >= kInFlight) finish_first();
    }
    while (!pending.empty()) finish_first();
  }

  ServerProcess server_;
  const std::size_t descriptors_at_start_ = [] {
    raise_descriptor_limit();
    return open_descriptors();
  }();
  StressClient client_{server_, GetParam(), {.idle_timeout = milliseconds(500)}};
  Rng rng_{1};
};

std::size_t requests() {
  return number_from_environment("TINKER_STRESS_REQUESTS", 3000);
}

TEST_P(FaultMix, EveryRequestEndsAsItsFaultImpliesAndLeavesNothing) {
  // What takes a connection down has one to itself, so that each result can be foretold. So have
  // short time-outs: they also limit how long opening a connection may take.
  const auto pool_of = [](const Case& plan) {
    if (plan.timeout) return PoolKind::session;
    const Hits hits = GetParam() == Wire::h1 ? plan.h1 : plan.h2;
    return hits == kAll ? PoolKind::train : PoolKind::sample;
  };
  std::map<std::string, std::size_t> outcomes;
  const auto check = [&](const Case& plan, const Result<http::Response>& result) {
    EXPECT_TRUE(is_as_planned(plan, result)) << plan.plan << " ended with " << describe(result);
    ++outcomes[result.ok() ? "ok" : std::string(to_string(result.error().code))];
  };
  const std::size_t descriptors_of_runtime = open_descriptors() - descriptors_at_start_;
  run(requests() / 2, pool_of, check);
  const std::size_t memory_halfway = resident_bytes();
  run(requests() - requests() / 2, pool_of, check);
  const std::size_t memory_at_end = resident_bytes();

  for (const auto& [name, count] : outcomes) std::printf("%8zu %s\n", count, name.c_str());
  std::printf("%.1f MB halfway, %.1f MB at the end\n",
              static_cast<double>(memory_halfway) / 1e6,
              static_cast<double>(memory_at_end) / 1e6);
  if (!kIsSanitized) {
    EXPECT_LT(memory_at_end, memory_halfway + (std::size_t{6} << 20U));
  }
  // Idle connections close after half a second; no request is left to keep one.
  const std::size_t expected = descriptors_at_start_ + descriptors_of_runtime;
  for (int i = 0; i < 600 && open_descriptors() > expected; ++i) {
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_LE(open_descriptors(), expected);
}

TEST_P(FaultMix, WhoSharesAConnectionWithAFaultSeesItsOwnResultOrABrokenConnection) {
  std::size_t as_planned = 0;
  std::size_t collateral = 0;
  const auto check = [&](const Case& plan, const Result<http::Response>& result) {
    if (is_as_planned(plan, result)) {
      ++as_planned;
    } else {
      ++collateral;
      ASSERT_FALSE(result.ok()) << plan.plan << " ended with " << describe(result);
      EXPECT_EQ(result.error().code, kBroken) << plan.plan << " ended with " << describe(result);
    }
  };
  const auto pool_of = [](const Case& plan) {
    return plan.timeout ? PoolKind::session : PoolKind::sample;
  };
  run(requests() / 10, pool_of, check);
  std::printf("%zu as planned, %zu broken by a neighbour\n", as_planned, collateral);
  EXPECT_GT(as_planned, 0);
}

INSTANTIATE_TEST_SUITE_P(Over, FaultMix, ::testing::Values(Wire::h1, Wire::h2), [](const auto& of) {
  return to_string(of.param);
});

}  // namespace
}  // namespace tinker::stress::fault_mix_test
