// Bodies that no client would send, for every endpoint of the table.
#include <algorithm>
#include <array>
#include <ostream>
#include <string>

#include "hostile_server.h"
#include "http/content_coding.h"
#include "support/peak_memory.h"
#include "wire/proto.h"

namespace tinker::hostile_bodies_test {
namespace {

using ::testing::HasSubstr;
using testing::HostileServer;
using testing::IsUsersFault;
using testing::kAda;
using testing::PeakMemory;
using testing::RawHttp;
using testing::RawResponse;

std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  out.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) out.append(text);
  return out;
}

/// An object in which all members that requests have are `value`.
std::string all_members(const std::string& value) {
  constexpr std::array kMembers = {"session_id",    "model_id",
                                   "request_id",    "sampling_session_id",
                                   "base_model",    "path",
                                   "tinker_path",   "source_path",
                                   "seq_id",        "model_seq_id",
                                   "tags",          "sampling_session_seq_id",
                                   "sdk_version",   "custom_loss_seq_id",
                                   "user_metadata", "sampling_params",
                                   "prompt",        "num_samples",
                                   "adam_params",   "lora_config",
                                   "target",        "optimizer_config",
                                   "ttl_seconds",   "project_id",
                                   "reason",        "destination_project_id",
                                   "graph",         "inputs",
                                   "limit",         "owner",
                                   "name",          "age_encryption_recipients",
                                   "model_path",    "forward_backward_input",
                                   "user_metadata", "display_name"};
  std::string out;
  for (const char* name : kMembers) {
    out += (out.empty() ? "{\"" : ",\"") + std::string(name) + "\":" + value;
  }
  return out + "}";
}

/// A frame of zstd in blocks of 128 KiB zeros: four bytes each.
std::string zstd_zeros(std::size_t blocks) {
  using namespace std::string_literals;
  std::string out = "\x28\xB5\x2F\xFD\x00\x38"s;  // no size, a window of 128 KiB
  for (std::size_t i = 1; i <= blocks; ++i) {
    const std::uint32_t header = (131'072U << 3U) | 2U | (i == blocks ? 1U : 0U);
    for (unsigned shift = 0; shift < 24; shift += 8) out += static_cast<char>(header >> shift);
    out += '\0';
  }
  return out;
}

struct Body {
  const char* name;
  std::string bytes;
  std::string headers = {};
};
void PrintTo(const Body& body, std::ostream* out) {
  *out << body.name;
}

std::vector<Body> bodies() {
  const std::string zstd = "Content-Encoding: zstd\r\n";
  return {
      {"Empty", ""},
      {"Garbage", "\x01\xFF\x7F garbage \x80"},
      {"Number", "17"},
      {"Null", "null"},
      {"Array", R"([1,"two",{}])"},
      {"MembersThatAreNumbers", all_members("17.5")},
      {"MembersThatAreArrays", all_members("[[[]]]")},
      {"MembersThatAreObjects", all_members(R"({"type":"nothing"})")},
      {"NumbersBeyond64Bits", all_members("99999999999999999999999999")},
      {"NumbersBeyondDoubles", all_members("1e999")},
      {"Unfinished", R"({"session_id":")"},
      {"DeepArrays", repeat("[", 100'000)},
      {"DeepObjects", repeat(R"({"a":)", 100'000)},
      {"DeepMember", R"({"x":)" + repeat("[", 100'000) + repeat("]", 100'000) + "}"},
      {"LongText", "\"" + std::string(1 << 20, 'a') + "\""},
      {"LongMembers", all_members("\"" + std::string(1 << 15, 'a') + "\"")},
      {"InvalidUtf8", all_members("\"\xC3\x28\xFF\"")},
      {"LoneSurrogates", all_members(R"("\ud800")")},
      {"NulInside", std::string("{\"session_id\":\"a\0b\"}", 20)},
      {"BrokenZstd", "\x28\xB5\x2F\xFD\x24 not a frame", zstd},
      {"CutZstd", zstd_zeros(8).substr(0, 20), zstd},
      {"NoZstd", R"({"session_id":"a"})", zstd},
      {"ZstdBomb", zstd_zeros(10'000), zstd},
      {"ZstdWindowBomb", std::string("\x28\xB5\x2F\xFD\x00\xF8\x01\x00\x00", 9), zstd},
      {"ZstdInZstd",
       http::zstd_compress(zstd_zeros(10'000), 3).value(),
       "Content-Encoding: zstd, zstd\r\n"},
      {"UnknownCoding", "{}", "Content-Encoding: br\r\n"},
      {"ManyCodings", "{}", "Content-Encoding: " + repeat("gzip, ", 1000) + "gzip\r\n"},
  };
}

/// These read no body, so that none is wrong; and to cancel what is not there is no mistake.
bool ignores_its_body(const server::EndpointName& endpoint) {
  constexpr std::array kNoBody = {
      "client/config", "client/dynamic_config", "auth/token", "telemetry", "cancel_future"};
  return (endpoint.method != http::Method::post && endpoint.method != http::Method::put) ||
         std::ranges::find(kNoBody, endpoint.path) != kNoBody.end() ||
         endpoint.path.find('{') != std::string_view::npos;
}

class HostileBody : public HostileServer, public ::testing::WithParamInterface<Body> {};

TEST_P(HostileBody, IsRefusedByEveryEndpoint) {
  for (const auto& endpoint : server::endpoint_names()) {
    const auto path = testing::fill(endpoint.path, "x");
    SCOPED_TRACE(path);
    if (endpoint.path == "auth/apikey/me") continue;  // it would revoke ada's key

    const auto answer =
        ask(http::to_string(endpoint.method), path, GetParam().bytes, kAda, GetParam().headers);

    EXPECT_GE(answer.status, 200) << answer.body;
    EXPECT_LT(answer.status, 500) << answer.body;
    if (!ignores_its_body(endpoint)) {
      EXPECT_GE(answer.status, 400) << answer.body;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, HostileBody, ::testing::ValuesIn(bodies()), [](const auto& body) {
  return body.param.name;
});

TEST_F(HostileServer, KeepsTheExpiryOfACheckpointUnlessItIsToldWhich) {  // PROTOCOL 9.29
  const auto run = new_run(new_session());
  ASSERT_EQ(
      outcome(post("save_weights",
                   R"({"model_id":")" + run + R"(","path":"saved","seq_id":1,"ttl_seconds":7200})"))
          .status,
      200);
  const std::string checkpoints = "training_runs/" + run + "/checkpoints";
  const auto expiry = [&] {
    const auto list = wire::decode_json<CheckpointsListResponse>(ask("GET", checkpoints).body);
    return list.value().checkpoints.at(0).expires_at;
  };
  const auto before = expiry();
  ASSERT_TRUE(before.has_value());
  const auto put = [&](std::string_view body) {
    return ask("PUT", checkpoints + "/weights/saved/ttl", body);
  };

  for (const char* body : {"{}", "", R"({"ttl":7200})", R"({"ttl_seconds":"7200"})"}) {
    EXPECT_EQ(put(body).status, 400) << body;
    EXPECT_EQ(expiry(), before) << body;
  }
  EXPECT_THAT(put("{}").body, HasSubstr("ttl_seconds"));
  EXPECT_EQ(put(R"({"ttl_seconds":null})").status, 200);
  EXPECT_EQ(expiry(), std::nullopt);
}

class HostileLength : public HostileServer {
 protected:
  /// An answer to a head that is followed by `body`, then by nothing.
  RawResponse after(const std::string& path, const std::string& fields, std::string_view body) {
    RawHttp client(server_.port());
    client.send("POST /api/v1/" + path + " HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + kAda +
                "\r\n" + fields + "\r\n");
    client.send(body);
    client.finish();
    return client.receive();
  }
};

TEST_F(HostileLength, BeyondAllLimitsIsRefusedAtOnce) {
  EXPECT_EQ(after("forward_backward", "Content-Length: 99999999999\r\n", "").status, 413);
}

TEST_F(HostileLength, OfAJsonBodyHasALimitOfItsOwn) {
  const PeakMemory memory;
  const std::string size = std::to_string((64 << 20) + 1);

  const auto answer =
      after("create_session", "Content-Length: " + size + "\r\n", std::string((64 << 20) + 1, ' '));

  EXPECT_EQ(answer.status, 413);
  if (testing::kCanMeasureMemory) {
    EXPECT_LT(memory.grown_bytes(), 300U << 20U);
  }
}

TEST_F(HostileLength, LongerThanTheBodyEndsWithTheConnection) {
  EXPECT_THAT(after("create_session", "Content-Length: 100\r\n", "{}").status,
              ::testing::AnyOf(0, 400));
}

TEST_F(HostileLength, ShorterThanTheBodyLeavesAnotherRequestThatIsRefused) {
  EXPECT_EQ(after("create_session", "Content-Length: 1\r\n", "{}").status, 400);
}

TEST_F(HostileLength, MayNotBeTwo) {
  EXPECT_EQ(after("create_session", "Content-Length: 2\r\nContent-Length: 3\r\n", "{} ").status,
            400);
}

TEST_F(HostileLength, MayNotBeNegative) {
  EXPECT_EQ(after("create_session", "Content-Length: -2\r\n", "{}").status, 400);
}

TEST_F(HostileLength, MayNotStandBesideChunks) {
  EXPECT_EQ(after("create_session",
                  "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                  "2\r\n{}\r\n0\r\n\r\n")
                .status,
            400);
}

/// Training requests whose model and number can be read, but not what they ask for.
struct Senseless {
  const char* name;
  const char* path;
  std::string rest;   ///< Of a JSON object, behind model and number.
  const char* fault;  ///< Named by the error.
};
void PrintTo(const Senseless& request, std::ostream* out) {
  *out << request.name;
}

class NumberedRequest : public HostileServer {
 protected:
  [[nodiscard]] RawResponse send(const char* path, int seq_id, const std::string& rest) const {
    return ask("POST",
               path,
               R"({"model_id":")" + run_ + R"(","seq_id":)" + std::to_string(seq_id) + rest + "}",
               kAda,
               "Content-Type: application/json\r\n");
  }

  const std::string run_ = new_run(new_session());
};

class SenselessRequest : public NumberedRequest, public ::testing::WithParamInterface<Senseless> {};

TEST_P(SenselessRequest, FailsThroughItsFutureAndUsesUpItsNumber) {  // PROTOCOL 10.17
  const auto& [name, path, rest, fault] = GetParam();
  const std::string step = R"(,"adam_params":{"learning_rate":0.1})";

  const auto accepted = send(path, 1, rest);
  const auto failed = outcome(accepted);

  ASSERT_EQ(accepted.status, 200) << accepted.body;
  EXPECT_EQ(failed.status, 200);
  EXPECT_THAT(failed.body, HasSubstr(R"("category":"user")"));
  EXPECT_THAT(failed.body, HasSubstr(fault));
  EXPECT_EQ(send(path, 1, rest).body, accepted.body);  // a repeat
  EXPECT_THAT(send("optim_step", 1, step).body, HasSubstr("seq_id 1 "));
  EXPECT_EQ(outcome(send("optim_step", 2, step)).body.find("error"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    ,
    SenselessRequest,
    ::testing::Values(
        Senseless{"PassOfNothing", "forward_backward", "", "forward_backward_input"},
        Senseless{"PassOfNumbers",
                  "forward_backward",
                  R"(,"forward_backward_input":{"data":7,"loss_fn":"cross_entropy"})",
                  "forward_backward_input.data"},
        Senseless{"PassOfAnUnknownTensor",
                  "forward_backward",
                  R"(,"forward_backward_input":{"data":[{"loss_fn_inputs":{"weights":{"data":[1],)"
                  R"("dtype":"float7"}},"model_input":{"chunks":[]}}],"loss_fn":"cross_entropy"})",
                  "dtype"},
        Senseless{"ForwardThatGoesBack",
                  "forward",
                  R"(,"forward_backward_input":{"data":[],"loss_fn":"cross_entropy"})",
                  "forward_input"},
        Senseless{"ForwardOfNothing", "forward", "", "forward_input"},
        Senseless{"StepOfNothing", "optim_step", "", "adam_params"},
        Senseless{"StepOfAWord",
                  "optim_step",
                  R"(,"adam_params":{"learning_rate":"fast"})",
                  "adam_params.learning_rate"},
        Senseless{"StepWithAnUnknownRate",
                  "optim_step",
                  R"(,"adam_params":{"learning_rat":0.1})",
                  "learning_rat"},
        Senseless{"SaveUnderANumber", "save_weights", R"(,"path":7)", "path"},
        Senseless{
            "SaveForSamplersUnderANumber", "save_weights_for_sampler", R"(,"path":7)", "path"},
        Senseless{"ExportOfNoName", "save_weights_external", "", "path"},
        Senseless{"LoadOfANumber", "load_weights", R"(,"path":7,"optimizer":false)", "path"}),
    [](const auto& request) { return request.param.name; });

TEST_F(NumberedRequest, OfProtobufThatMakesNoSenseUsesUpItsNumber) {  // PROTOCOL 10.17
  const auto request =
      wire::encode_proto(ForwardBackwardRequest{.model_id = run_, .seq_id = 1}).value();
  const std::string chunk_of_no_kind("\x1A\x02\x0A\x00", 4);

  const auto accepted = post("forward_backward", request + chunk_of_no_kind);

  ASSERT_EQ(accepted.status, 200) << accepted.body;
  EXPECT_THAT(outcome(accepted).body, HasSubstr("data[0].model_input"));
  EXPECT_THAT(post("forward_backward", request).body, HasSubstr("seq_id 1 "));
}

TEST_F(NumberedRequest, ThatCannotBeQueuedIsRefusedAtOnce) {  // PROTOCOL 10.17
  EXPECT_EQ(post("optim_step", R"({"model_id":")" + run_ + "\"}").status, 400);
  EXPECT_EQ(send("optim_step", 0, "").status, 400);
  EXPECT_EQ(send("optim_step", -1, "").status, 400);
  EXPECT_EQ(post("optim_step", R"({"model_id":"of:nobody","seq_id":1})").status, 400);
  EXPECT_EQ(ask("POST", "optim_step", R"({"model_id":")" + run_ + R"(","seq_id":1})", testing::kBob)
                .status,
            400);
}

TEST_F(HostileServer, UnpacksABombOnlyAsFarAsItsSizeAllows) {  // 40 KB that stand for 1.3 GB
  if (!testing::kCanMeasureMemory) GTEST_SKIP() << "sanitizers have memory of their own";
  const std::string bomb = zstd_zeros(10'000);
  const PeakMemory memory;

  const auto answer = ask("POST", "forward_backward", bomb, kAda, "Content-Encoding: zstd\r\n");

  EXPECT_THAT(answer, IsUsersFault());
  EXPECT_LT(memory.grown_bytes(), 300U << 20U);
}

}  // namespace
}  // namespace tinker::hostile_bodies_test
