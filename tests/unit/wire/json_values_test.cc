// Single values inside documents: numbers, texts, bytes, dates, names, seeds, stops.

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/billing.h"
#include "tinker/types/model.h"
#include "tinker/types/model_input.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/promise.h"
#include "tinker/types/sample.h"
#include "tinker/types/telemetry.h"
#include "tinker/types/weights.h"
#include "wire/json.h"

namespace tinker::wire::json_values_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsNan;
using ::testing::StartsWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOkAndHolds;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename... Parts>
std::string text(const Parts&... parts) {
  return (std::string() + ... + parts);
}

// ---- Integers

Result<FutureFinished> size_of(const std::string& number) {
  return decode_json<FutureFinished>(
      text(R"({"request_id":"r","response_payload_uncompressed_size":)", number, "}"));
}

TEST(JsonInteger, SpansSixtyFourBits) {
  EXPECT_EQ(size_of("9223372036854775807").value().response_payload_uncompressed_size,
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(size_of("-9223372036854775808").value().response_payload_uncompressed_size,
            std::numeric_limits<std::int64_t>::min());
}

TEST(JsonInteger, MayBeWrittenAsAnIntegralFloat) {  // PROTOCOL 5: an integral float for int
  EXPECT_EQ(size_of("3.0").value().response_payload_uncompressed_size, 3);
  EXPECT_EQ(size_of("2e3").value().response_payload_uncompressed_size, 2000);
}

TEST(JsonInteger, RefusesWhatIsNone) {
  for (const char* number : {"3.5", "9223372036854775808", "1e19", "true", R"("3")", "[]"}) {
    EXPECT_THAT(size_of(number),
                IsError(ErrorCode::invalid_response,
                        StartsWith("response_payload_uncompressed_size: expected an integer of 64 "
                                   "bits, found")))
        << number;
  }
}

TEST(JsonTokenIds, SpanThirtyTwoBits) {
  EXPECT_THAT(echo<EncodedTextChunk>(R"({"tokens":[2147483647,-2147483648,0]})"),
              IsOkAndHolds(R"({"tokens":[2147483647,-2147483648,0],"type":"encoded_text"})"));
  EXPECT_THAT(decode_json<EncodedTextChunk>(R"({"tokens":[1,2147483648]})"),
              IsError(ErrorCode::invalid_argument, "tokens[1]: expected an integer of 32 bits"));
}

TEST(JsonTokenIds, MayBeNone) {  // PROTOBUF 3: an empty token list is a chunk too
  EXPECT_THAT(echo<EncodedTextChunk>(R"({"tokens":[]})"),
              IsOkAndHolds(R"({"tokens":[],"type":"encoded_text"})"));
}

TEST(JsonTokenIds, RefuseStrings) {  // WIRE_TOOL: strings are not numbers
  EXPECT_THAT(decode_json<EncodedTextChunk>(R"({"tokens":["1"]})"),
              IsError(ErrorCode::invalid_argument, HasSubstr("tokens[0]: expected")));
}

// ---- Floats

Result<OptimStepResponse> metric(const std::string& number) {
  return decode_json<OptimStepResponse>(text(R"({"metrics":{"m":)", number, "}}"));
}

TEST(JsonFloat, MayBeWrittenAsAnInteger) {  // PROTOCOL 5: ints for floats
  EXPECT_EQ(metric("3").value().metrics->at("m"), 3.0);
  EXPECT_EQ(metric("18446744073709551615").value().metrics->at("m"), 18446744073709551615.0);
}

TEST(JsonFloat, ReadsNonFiniteNumbersFromStrings) {  // PROTOCOL 5: "NaN", "inf", "-inf"
  EXPECT_THAT(metric(R"("NaN")").value().metrics->at("m"), IsNan());
  EXPECT_EQ(metric(R"("inf")").value().metrics->at("m"), kInfinity);
  EXPECT_EQ(metric(R"("-inf")").value().metrics->at("m"), -kInfinity);
}

TEST(JsonFloat, ReadsTheirOtherSpellings) {
  EXPECT_THAT(metric(R"("nan")").value().metrics->at("m"), IsNan());
  EXPECT_THAT(metric(R"("-NaN")").value().metrics->at("m"), IsNan());
  EXPECT_EQ(metric(R"("Infinity")").value().metrics->at("m"), kInfinity);
  EXPECT_EQ(metric(R"("+INF")").value().metrics->at("m"), kInfinity);
  EXPECT_EQ(metric(R"("-Infinity")").value().metrics->at("m"), -kInfinity);
}

TEST(JsonFloat, RefusesNullAndOtherStrings) {  // PROTOCOL 5: null is no number; WIRE_TOOL
  EXPECT_THAT(metric("null"),
              IsError(ErrorCode::invalid_response, "metrics.m: expected a number, found null"));
  for (const char* other : {R"("0.5")", R"("")", R"("-")", R"("infinit")", "true"}) {
    EXPECT_THAT(metric(other), IsError(ErrorCode::invalid_response, StartsWith("metrics.m: ")))
        << other;
  }
}

TEST(JsonFloat, RefusesBareWordsAndNumbersBeyondRange) {  // PROTOCOL 5
  for (const char* bare : {"NaN", "Infinity", "-Infinity", "1e400"}) {
    EXPECT_THAT(metric(bare),
                IsError(ErrorCode::invalid_response, StartsWith("metrics.m: expected")))
        << bare;
  }
}

TEST(JsonFloat, WritesNonFiniteNumbersOfAnswersAsStrings) {  // PROTOCOL 5, 9.13
  OptimStepResponse answer;
  answer.metrics = {{"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}};
  EXPECT_THAT(encode_json(answer), IsOkAndHolds(R"({"metrics":{"a":"NaN","b":"inf","c":"-inf"}})"));
}

TEST(JsonFloat, RefusesNonFiniteStringsInRequests) {  // WIRE_TOOL: NaN refused
  EXPECT_THAT(
      decode_json<SamplingParams>(R"({"temperature":"NaN"})"),
      IsError(ErrorCode::invalid_argument, "temperature: expected a number, found a string"));
}

TEST(JsonFloat, RefusesToWriteNonFiniteNumbersInRequests) {  // PROTOCOL 4.1, 7.6
  EXPECT_THAT(encode_json(OptimStepRequest{.optim_params = AdamParams{.learning_rate = kInfinity},
                                           .model_id = "m"}),
              IsError(ErrorCode::invalid_argument,
                      "adam_params.learning_rate: expected a finite number, found inf"));
}

// ---- Texts and bytes

TEST(JsonText, RefusesToWriteWhatIsNotUtf8) {
  EXPECT_THAT(encode_json(GetInfoRequest{.model_id = "\xff"}),
              IsError(ErrorCode::invalid_argument, "model_id: expected UTF-8 text"));
}

TEST(JsonText, RefusesToReadWhatIsNotUtf8) {
  EXPECT_THAT(decode_json<GetInfoRequest>("{\"model_id\":\"\xff\"}"),
              IsError(ErrorCode::invalid_argument,
                      "$: expected one JSON document, found text that is not UTF-8"));
}

TEST(JsonBytes, TravelAsBase64) {  // PROTOCOL 4.7
  EXPECT_EQ(decode_json<ImageChunk>(R"({"data":"iVBORw==","format":"png"})").value().data,
            "\x89PNG");
  EXPECT_THAT(encode_json(DmelChunk{.dmel = std::string("\x04\x02\x01\x50", 4)}),
              IsOkAndHolds(R"({"dmel":"BAIBUA==","type":"dmel"})"));
}

TEST(JsonBytes, RefuseOtherText) {
  EXPECT_THAT(decode_json<DmelChunk>(R"({"dmel":"BAIBUA"})"),
              IsError(ErrorCode::invalid_argument, StartsWith("dmel: expected a base64 string")));
  EXPECT_THAT(decode_json<DmelChunk>(R"({"dmel":"BA IB"})"),
              IsError(ErrorCode::invalid_argument, StartsWith("dmel: expected a base64 string")));
  EXPECT_THAT(
      decode_json<DmelChunk>(R"({"dmel":[4]})"),
      IsError(ErrorCode::invalid_argument, "dmel: expected a base64 string, found an array"));
}

// ---- Dates

Result<SessionStartEvent> event_at(const std::string& timestamp) {
  return decode_json<SessionStartEvent>(
      text(R"({"event":"SESSION_START","event_id":"e","event_session_index":0,"severity":"INFO",)",
           R"("timestamp":)",
           timestamp,
           "}"));
}

std::string written_date(const std::string& timestamp) {
  const std::string out = encode_json(event_at(timestamp).value()).value();
  const auto begin = out.find(R"("timestamp":")") + 13;
  return out.substr(begin, out.size() - begin - 2);
}

TEST(JsonDate, HasSixDigitsOfFractionOrNone) {  // PROTOCOL 4.8
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05Z")"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05.678901Z")"), "2026-01-02T03:04:05.678901Z");
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05.5Z")"), "2026-01-02T03:04:05.500000Z");
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05.000000Z")"), "2026-01-02T03:04:05Z");
}

TEST(JsonDate, KeepsItsOffset) {  // PROTOCOL 4.8; WIRE_TOOL
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05+05:30")"), "2026-01-02T03:04:05+05:30");
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05-08:00")"), "2026-01-02T03:04:05-08:00");
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05+00:00")"), "2026-01-02T03:04:05Z");
  EXPECT_EQ(written_date(R"("2026-01-02T03:04:05")"), "2026-01-02T03:04:05");
}

TEST(JsonDate, MayBeUnixSeconds) {  // PROTOCOL 5: unix seconds (int/float) for datetimes
  EXPECT_EQ(written_date("1772359200"), "2026-03-01T10:00:00Z");
  EXPECT_EQ(written_date("1772359200.25"), "2026-03-01T10:00:00.250000Z");
}

TEST(JsonDate, RefusesOtherTextsAndKinds) {
  EXPECT_THAT(event_at(R"("yesterday")"),
              IsError(ErrorCode::invalid_response, HasSubstr("timestamp: ")));
  EXPECT_THAT(event_at(R"("2026-02-30T00:00:00Z")"),
              IsError(ErrorCode::invalid_response, HasSubstr("2026-02-30")));
  EXPECT_THAT(
      event_at("true"),
      IsError(ErrorCode::invalid_response, "timestamp: expected a date and time, found true"));
}

// ---- Names

TEST(JsonName, OfARequestMustBeKnown) {  // PROTOCOL 7.1
  EXPECT_THAT(
      decode_json<ImageChunk>(R"({"data":"","format":"gif"})"),
      IsError(ErrorCode::invalid_argument, "format: expected one of 'png', 'jpeg', found 'gif'"));
  EXPECT_THAT(decode_json<ImageChunk>(R"({"data":"","format":1})"),
              IsError(ErrorCode::invalid_argument,
                      "format: expected one of 'png', 'jpeg', found an integer"));
}

TEST(JsonName, IsSpeltExactly) {  // PROTOCOL 7.1: exact wire spelling
  for (const char* severity : {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}) {
    const std::string body =
        text(R"({"event":"SESSION_START","event_id":"e","event_session_index":0,"severity":")",
             severity,
             R"(","timestamp":"2026-01-02T03:04:05Z"})");
    EXPECT_THAT(echo<SessionStartEvent>(body), IsOkAndHolds(body));
  }
  EXPECT_FALSE(decode_json<ImageChunk>(R"({"data":"","format":"PNG"})").ok());
}

TEST(JsonName, OfAnAnswerMustBeAString) {
  EXPECT_THAT(decode_json<TryAgainResponse>(R"({"request_id":"r","queue_state":null})"),
              IsError(ErrorCode::invalid_response, "queue_state: expected a string, found null"));
}

// ---- Seeds

std::string seed_echo(const std::string& seed) {
  return echo<LoraConfig>(text(R"({"rank":1,"seed":)", seed, "}")).value();
}

TEST(JsonSeed, IsAnySixtyFourBitInteger) {  // PROTOBUF 1: any 64-bit seed fits
  EXPECT_THAT(seed_echo("18446744073709551615"), HasSubstr(R"("seed":18446744073709551615)"));
  EXPECT_THAT(seed_echo("-9223372036854775808"), HasSubstr(R"("seed":-9223372036854775808)"));
  EXPECT_THAT(seed_echo("0"), HasSubstr(R"("seed":0)"));
  EXPECT_THAT(seed_echo("-1"), HasSubstr(R"("seed":-1)"));
}

TEST(JsonSeed, RefusesMore) {
  EXPECT_FALSE(decode_json<SamplingParams>(R"({"seed":18446744073709551616})").ok());
  EXPECT_THAT(
      decode_json<SamplingParams>(R"({"seed":1.5})"),
      IsError(ErrorCode::invalid_argument, "seed: expected an integer of 64 bits, found a number"));
}

// ---- Stops (PROTOCOL 7.4)

Result<std::string> stop_echo(const std::string& stop) {
  return echo<SamplingParams>(text(R"({"stop":)", stop, "}"));
}

TEST(JsonStop, IsAStringOrStringsOrTokens) {
  EXPECT_THAT(stop_echo(R"("\n\n")"), IsOkAndHolds(StartsWith(R"({"stop":"\n\n",)")));
  EXPECT_THAT(stop_echo(R"(["a",""])"), IsOkAndHolds(StartsWith(R"({"stop":["a",""],)")));
  EXPECT_THAT(stop_echo("[13,2]"), IsOkAndHolds(StartsWith(R"({"stop":[13,2],)")));
}

TEST(JsonStop, SendsAnEmptyListAndOmitsNull) {  // `[]` disables all stop tokens, null does not
  EXPECT_THAT(stop_echo("[]"), IsOkAndHolds(StartsWith(R"({"stop":[],)")));
  EXPECT_THAT(stop_echo("null"), IsOkAndHolds(R"({"temperature":1.0,"top_k":-1,"top_p":1.0})"));
  EXPECT_THAT(encode_json(SamplingParams{.stop = std::vector<std::int32_t>{}}),
              IsOkAndHolds(StartsWith(R"({"stop":[],)")));
}

TEST(JsonStop, RefusesAMixture) {
  EXPECT_THAT(stop_echo(R"(["a",13])"),
              IsError(ErrorCode::invalid_argument, "stop[1]: expected a string, found an integer"));
  EXPECT_THAT(stop_echo(R"([13,"a"])"),
              IsError(ErrorCode::invalid_argument, "stop[1]: expected an integer of 32 bits"));
}

TEST(JsonStop, RefusesOtherKinds) {
  EXPECT_THAT(stop_echo("13"),
              IsError(ErrorCode::invalid_argument,
                      "stop: expected a string, an array of strings or of token ids, found an "
                      "integer"));
  EXPECT_THAT(stop_echo("[null]"),
              IsError(ErrorCode::invalid_argument, "stop[0]: expected a string, found null"));
}

}  // namespace
}  // namespace tinker::wire::json_values_test
