#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/future_poller.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/optimizer.h"
#include "unit/session/poll_support.h"

// What follows answers that are a success (6.3).

namespace tinker::session::future_poller_answers_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

// ---- 6.3: answers that are a success

TEST_F(FuturePollerTest, ReadsAProtobufResult) {  // 6.3
  script({protobuf(sample_bytes())});

  const auto result = poll_sample();

  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->sequences, a_sample().sequences);
}

TEST_F(FuturePollerTest, RecognisesProtobufByItsMediaType) {  // PROTOCOL 5 and 9.19
  for (const char* type : {"application/x-protobuf; charset=x", "Application/X-Protobuf"}) {
    script({{.body = sample_bytes(), .headers = {{.name = "content-type", .value = type}}}});
    EXPECT_THAT(poll_sample(), IsOk()) << type;
  }
}

TEST_F(FuturePollerTest, ReadsALargeResultOnTheWorkers) {
  SampleResponse large;
  for (int i = 0; i < 50; ++i) {
    large.sequences.push_back(
        {.stop_reason = StopReason::stop, .tokens = std::vector<std::int32_t>(10'000, 123'456)});
  }
  script({protobuf(wire::encode_proto(large).value())});

  const auto result = poll_sample();

  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->sequences, large.sequences);
}

TEST_F(FuturePollerTest, RefusesBrokenProtobuf) {  // 6.3, 14.4
  for (const std::size_t size : {std::size_t{10}, std::size_t{100'000}}) {
    script({protobuf(std::string(size, '\xff'))});
    EXPECT_THAT(poll_sample(), IsError(ErrorCode::invalid_response, HasSubstr("r-1")));
  }

  const auto events = reported(fixture, "APIFuture.result_async.proto_deserialization_error");
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].severity, Severity::error);
  EXPECT_THAT(names_of(events[0].event_data),
              ElementsAre("request_id",
                          "request_type",
                          "exception",
                          "exception_type",
                          "proto_bytes_len",
                          "model_cls",
                          "iteration",
                          "elapsed_time"));
  EXPECT_EQ(member(events[0].event_data, "proto_bytes_len"), Json(10));
  EXPECT_EQ(member(events[1].event_data, "proto_bytes_len"), Json(100'000));
}

TEST_F(FuturePollerTest, RefusesProtobufWhereJsonIsDue) {  // 6.3
  script({protobuf(sample_bytes())});

  EXPECT_THAT(poll_json(),
              IsError(ErrorCode::invalid_response,
                      AllOf(HasSubstr("expected a result in JSON"), HasSubstr("r-1"))));
  EXPECT_THAT(reported(fixture, "APIFuture.result_async.proto_deserialization_error"), SizeIs(1));
}

TEST_F(FuturePollerTest, PollsAgainAfterTryAgain) {  // 6.3
  script({{.body = R"({"type":"try_again","request_id":"r-1","queue_state":"paused_rate_limit"})",
           .delay = 10s},
          done()});
  auto request = optim_step();
  request.observer =
      std::make_shared<QueueStateObserver>(fixture.session, QueuedWork::training, "m1");

  EXPECT_THAT(poll_json(request), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0s, 10s));
  const auto lines = fixture.log.lines("try again");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].level, LogLevel::warn);
  EXPECT_THAT(fixture.log.lines("training for m1 is paused"), SizeIs(1));
}

TEST_F(FuturePollerTest, TellsTheObserverNothingWhenTryAgainSaysNothing) {  // 6.3
  const EventCapture events(fixture.session->runtime->events(), "queue_state");
  script({json(R"({"type":"try_again"})"),
          json(R"({"type":"try_again","queue_state":"on_holiday"})"),
          json(R"({"type":"try_again","queue_state":null,"queue_state_reason":null})"),
          json(R"({"type":"try_again","queue_state_reason":"soon"})"),
          done()});
  auto request = optim_step();
  request.observer =
      std::make_shared<QueueStateObserver>(fixture.session, QueuedWork::training, "m1");

  EXPECT_THAT(poll_json(request), IsOk());

  ASSERT_THAT(events.seen(), SizeIs(1));
  EXPECT_EQ(events.seen()[0].message, "soon");
}

TEST_F(FuturePollerTest, NeedsNoObserver) {
  script({json(R"({"type":"try_again","queue_state":"paused_capacity"})"),
          {.status = 408, .body = R"({"queue_state":"paused_capacity"})"},
          done()});

  EXPECT_THAT(poll_json(), IsOk());
}

TEST_F(FuturePollerTest, AsksForThePayloadAfterMetadata) {  // 6.3
  script({json(R"({"status":"complete_metadata","response_payload_size":7340032})"),
          protobuf(sample_bytes())});

  EXPECT_THAT(poll_sample(), IsOk());

  EXPECT_THAT(bodies(fixture, kRetrieveFuture),
              ElementsAre(R"({"request_id":"r-1","allow_metadata_only":true})",
                          R"({"request_id":"r-1","allow_metadata_only":false})"));
}

TEST_F(FuturePollerTest, HoldsItsPartOfTheBytesInFlightUntilItIsFinished) {  // 6.3, R6.9
  const auto limit = fixture.session->config.inflight_response_bytes_semaphore_size;
  const auto& budget = fixture.session->inflight_response_bytes;
  script({json(R"({"status":"complete_metadata","response_payload_size":1000})"),
          {.status = 408, .delay = 30s},
          {.body = sample_bytes(),
           .headers = {{.name = "Content-Type", .value = "application/x-protobuf"}},
           .delay = 10s}});
  auto future = fixture.spawn(poll<SampleResponse>(fixture.session, sample()));

  fixture.time.advance(39s);
  EXPECT_EQ(budget.available(), limit - 1000);
  fixture.time.advance(1s);

  EXPECT_TRUE(future.is_ready());
  EXPECT_EQ(budget.available(), limit);
}

TEST_F(FuturePollerTest, WaitsForRoomAmongTheBytesInFlight) {  // R6.8, R6.9
  fixture.session->inflight_response_bytes = async::Semaphore::bytes(100);
  fixture.server->handle(std::string(kRetrieveFuture), [](const http::Request& request) {
    if (http::view(request.body).find("true") != std::string_view::npos) {
      return json(R"({"status":"complete_metadata","response_payload_size":150})");
    }
    auto reply = protobuf(sample_bytes());
    reply.delay = 10s;
    return reply;
  });

  auto first = fixture.spawn(poll<SampleResponse>(fixture.session, sample("r-1")));
  auto second = fixture.spawn(poll<SampleResponse>(fixture.session, sample("r-2")));

  EXPECT_THAT(second.get(), IsOk());
  EXPECT_TRUE(first.is_ready());
  EXPECT_EQ(fixture.time.elapsed(), 20s);
  EXPECT_EQ(fixture.session->inflight_response_bytes.available(), 100);
}

TEST_F(FuturePollerTest, TakesOddSizesForNothing) {  // PROTOCOL 9.19
  for (const char* size : {"null", "0", "-5", "\"9\"", "1.5"}) {
    script({json(R"({"status":"complete_metadata","response_payload_size":)" + std::string(size) +
                 "}"),
            protobuf(sample_bytes())});
    auto future = fixture.spawn(poll<SampleResponse>(fixture.session, sample()));
    EXPECT_THAT(future.get(), IsOk()) << size;
  }
  script({json(R"({"status":"complete_metadata"})"), protobuf(sample_bytes())});
  EXPECT_THAT(poll_sample(), IsOk());
  EXPECT_EQ(fixture.session->inflight_response_bytes.available(),
            fixture.session->config.inflight_response_bytes_semaphore_size);
}

TEST_F(FuturePollerTest, RefusesMetadataThatWasNotAskedFor) {  // 6.3
  script({json(R"({"status":"complete_metadata","response_payload_size":10})")});

  EXPECT_THAT(
      poll_sample(),
      IsError(ErrorCode::invalid_response, AllOf(HasSubstr("metadata only"), HasSubstr("r-1"))));
  EXPECT_THAT(poll_times(), SizeIs(2));
  EXPECT_EQ(fixture.session->inflight_response_bytes.available(),
            fixture.session->config.inflight_response_bytes_semaphore_size);
}

TEST_F(FuturePollerTest, EndsWithTheErrorOfTheOperation) {  // 6.3, 14.4
  script({json(R"({"error":"sequence too long","category":"user"})")});

  const auto result = poll_json();

  ASSERT_THAT(result,
              IsError(ErrorCode::request_failed,
                      StartsWith("request failed: sequence too long for OptimStep request r-1")));
  EXPECT_EQ(result.error().category, RequestErrorCategory::user);
  EXPECT_EQ(result.error().request_id, "r-1");
  const auto events = reported(fixture, "APIFuture.result_async.application_error");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].severity, Severity::warning);
  EXPECT_THAT(names_of(events[0].event_data),
              ElementsAre("request_id",
                          "request_type",
                          "error",
                          "error_category",
                          "is_user_error",
                          "iteration",
                          "elapsed_time"));
  EXPECT_EQ(member(events[0].event_data, "error"), Json("sequence too long"));
  EXPECT_EQ(member(events[0].event_data, "error_category"), Json("User"));
  EXPECT_EQ(member(events[0].event_data, "is_user_error"), Json(true));
}

TEST_F(FuturePollerTest, TakesAnyErrorAndCategory) {  // 6.3, PROTOCOL 9.19
  struct Case {
    const char* body;
    const char* text;
    RequestErrorCategory category;
  };
  const std::vector<Case> cases = {
      {.body = R"({"error":null})", .text = "None", .category = RequestErrorCategory::unknown},
      {.body = R"({"error":"e","category":"server"})",
       .text = "e",
       .category = RequestErrorCategory::server},
      {.body = R"({"error":"e","category":"Server"})",
       .text = "e",
       .category = RequestErrorCategory::unknown},
      {.body = R"({"error":"e","category":7})",
       .text = "e",
       .category = RequestErrorCategory::unknown},
      {.body = R"({"error":{"a":[1]},"category":null})",
       .text = R"({"a":[1]})",
       .category = RequestErrorCategory::unknown},
      {.body = R"({"error":5,"metrics":{}})",
       .text = "5",
       .category = RequestErrorCategory::unknown},
  };
  for (const auto& one : cases) {
    script({json(one.body)});
    const auto result = poll_json();
    ASSERT_THAT(result,
                IsError(ErrorCode::request_failed,
                        StartsWith("request failed: " + std::string(one.text) + " for ")));
    EXPECT_EQ(result.error().category, one.category) << one.body;
  }
  const auto events = reported(fixture, "APIFuture.result_async.application_error");
  ASSERT_THAT(events, SizeIs(cases.size()));
  EXPECT_EQ(events[1].severity, Severity::error);
  EXPECT_EQ(member(events[1].event_data, "error_category"), Json("Server"));
  EXPECT_EQ(member(events[2].event_data, "error_category"), Json("Unknown"));
}

TEST_F(FuturePollerTest, LooksForTheFormsInTheirOrder) {  // PROTOCOL 9.19
  script({json(R"({"type":"try_again","status":"complete_metadata","error":"e"})"),
          json(R"({"status":"complete_metadata","error":"e","response_payload_size":1})"),
          json(R"({"status":"ok","type":"optim_step","metrics":null})")});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), SizeIs(3));
}

TEST_F(FuturePollerTest, RefusesAJsonResultWhereProtobufIsDue) {  // 6.3
  script({json(R"({"sequences":[]})")});

  EXPECT_THAT(poll_sample(),
              IsError(ErrorCode::invalid_response, AllOf(HasSubstr("too old"), HasSubstr("r-1"))));
  EXPECT_THAT(reported(fixture, "APIFuture.result_async.validation_error"), IsEmpty());
}

TEST_F(FuturePollerTest, ReadsAJsonResult) {  // 6.3
  script({done()});

  const auto result = poll_json();

  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->metrics->at("loss"), 1.5);
}

TEST_F(FuturePollerTest, RefusesAJsonResultThatDoesNotFit) {  // 6.3, 14.4
  script({json(R"({"metrics":[1]})")});

  EXPECT_THAT(poll_json(),
              IsError(ErrorCode::invalid_response, AllOf(HasSubstr("r-1"), HasSubstr("metrics"))));

  const auto events = reported(fixture, "APIFuture.result_async.validation_error");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].severity, Severity::error);
  EXPECT_THAT(names_of(events[0].event_data),
              ElementsAre("request_id",
                          "request_type",
                          "exception",
                          "exception_type",
                          "exception_stack",
                          "model_cls",
                          "iteration",
                          "elapsed_time"));
}

TEST_F(FuturePollerTest, RefusesWhatIsNoJsonObject) {  // 6.3
  const EventCapture retries(fixture.session->runtime->events(), "poll.error");
  for (const char* body : {"", "<html>", "{\"metrics\":", "null", "[]", "7", "{\"x\":NaN}"}) {
    script({json(body)});
    EXPECT_THAT(poll_json(), IsError(ErrorCode::invalid_response, HasSubstr("r-1"))) << body;
  }
  script({{.status = 204}});
  EXPECT_THAT(poll_json(), IsError(ErrorCode::invalid_response, HasSubstr("r-1")));

  EXPECT_THAT(poll_times(), SizeIs(8));
  EXPECT_THAT(retries.seen(), IsEmpty());
  for (const char* name : {"api_status_error", "connection_error", "validation_error"}) {
    EXPECT_THAT(reported(fixture, "APIFuture.result_async." + std::string(name)), IsEmpty());
  }
}

}  // namespace
}  // namespace tinker::session::future_poller_answers_test
