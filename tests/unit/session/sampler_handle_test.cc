#include "session/sampler_handle.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "wire/base64.h"

namespace tinker::session::sampler_handle_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;

std::string url_safe(std::string_view json) {
  std::string out = wire::to_base64(json);
  std::ranges::replace(out, '+', '-');
  std::ranges::replace(out, '/', '_');
  return out;
}

// What the official SDK 0.36.0 puts into a handle, inside the base64.
constexpr std::string_view kOfficial =
    R"({"session_id":"s-1","sampling_session_id":"s-1:sample:0","holder":{"base_url":"http://server.test",)"
    R"("default_headers_overrides":{},"client_config":{"pjwt_auth_enabled":false,"credential_default_source":"api_key",)"
    R"("sample_dispatch_bytes_semaphore_size":10485760,"inflight_response_bytes_semaphore_size":52428800,)"
    R"("parallel_fwdbwd_chunks":true,"proto_compress_fwdbwd":false,"fwdbwd_max_chunk_len":1024,)"
    R"("fwdbwd_max_chunk_bytes_count":5000000,"fwdbwd_dispatch_bytes_semaphore_size":50000000,)"
    R"("billing_exception_max_pause_duration_sec":3600,"sample_no_retries":false,"sample_enable_stuck_detection":true,)"
    R"("sample_max_concurrent_requests":2000,"use_pyqwest_transport":true,"create_model_via_load_weights":false,)"
    R"("sample_use_retrieve_futures":false,"custom_loss_server_side":false,"sample_join_sampling_session":false},)"
    R"("client_dynamic_config":{"refresh_interval_sec":300,"sample_cancel_enabled":false,"sample_cancel_max_batch_size":64},)"
    R"("api_key":null},"record_stability_info":false})";

const SamplerHandle kHandle = {
    .session_id = "s-1", .sampling_session_id = "s-1:sample:0", .base_url = "http://server.test"};

TEST(SamplerHandle, IsWhatTheOfficialSdkWrites) {  // R17.1
  EXPECT_THAT(encode_sampler_handle(kHandle), IsOkAndHolds(url_safe(kOfficial)));
}

TEST(SamplerHandle, ReadsTheOfficialOnes) {  // R17.2
  EXPECT_THAT(decode_sampler_handle(url_safe(kOfficial)), IsOkAndHolds(kHandle));
}

TEST(SamplerHandle, KeepsEveryMember) {  // R17.1
  SamplerHandle handle = kHandle;
  handle.record_stability_info = true;
  handle.config.sample_use_retrieve_futures = true;
  handle.dynamic_config.sample_cancel_enabled = true;

  const auto text = encode_sampler_handle(handle);

  EXPECT_THAT(decode_sampler_handle(text.value()), IsOkAndHolds(handle));
}

TEST(SamplerHandle, NeedsOnlyWhatTheRulesRequire) {  // R17.2
  EXPECT_THAT(decode_sampler_handle(url_safe(
                  R"({"session_id":"s-1","sampling_session_id":"s-1:sample:0","holder":{)"
                  R"("base_url":"http://server.test","default_headers_overrides":null,)"
                  R"("client_config":{"some_future_flag":1},"client_dynamic_config":{}}})")),
              IsOkAndHolds(kHandle));
}

TEST(SamplerHandle, RefusesUnknownAndMissingMembers) {  // R17.2
  const std::string holder =
      R"({"base_url":"u","default_headers_overrides":{},"client_config":{},"client_dynamic_config":{}})";
  for (const auto& [json, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"session_id":"s","sampling_session_id":"x","more":1,"holder":)" + holder + "}",
            "\"more\""},
           {R"({"sampling_session_id":"x","holder":)" + holder + "}", "\"session_id\""},
           {R"({"session_id":"s","holder":)" + holder + "}", "\"sampling_session_id\""},
           {R"({"session_id":"s","sampling_session_id":"x"})", "\"holder\""},
           {R"({"session_id":"s","sampling_session_id":"x","holder":{"x":1}})", "\"x\""},
           {R"({"session_id":"s","sampling_session_id":"x","holder":{"base_url":"u"}})",
            "\"default_headers_overrides\""},
           {R"({"session_id":"s","sampling_session_id":"x","record_stability_info":2,"holder":)" +
                holder + "}",
            "\"record_stability_info\""},
           {R"([1])", "not an object"}}) {
    EXPECT_THAT(decode_sampler_handle(url_safe(json)),
                IsError(ErrorCode::invalid_argument, HasSubstr(expected)));
  }
  EXPECT_THAT(decode_sampler_handle("!!"),
              IsError(ErrorCode::invalid_argument, HasSubstr("base64")));
  EXPECT_THAT(decode_sampler_handle(""), IsError(ErrorCode::invalid_argument, HasSubstr("JSON")));
}

TEST(SamplerHandle, PassesSecretsOfOthersOver) {  // R17.3, D8
  const std::string json =
      R"({"session_id":"s","sampling_session_id":"x","holder":{"base_url":"u","api_key":"tml-other",)"
      R"("default_headers_overrides":{"X-Secret":"shh"},"client_config":{},"client_dynamic_config":{}}})";

  const auto handle = decode_sampler_handle(url_safe(json));
  const auto again = wire::from_base64(encode_sampler_handle(handle.value()).value());

  EXPECT_THAT(*again, AllOf(Not(HasSubstr("tml-other")), Not(HasSubstr("shh"))));
}

TEST(SamplerHandle, NeverShowsItsContentsInErrors) {
  const auto result = decode_sampler_handle(url_safe(
      R"({"session_id":"s","sampling_session_id":"x","holder":{"base_url":"u","api_key":"tml-other",)"
      R"("default_headers_overrides":{},"client_config":{"fwdbwd_max_chunk_len":"tml-other"},)"
      R"("client_dynamic_config":{}}})"));

  EXPECT_THAT(result, IsError(ErrorCode::invalid_argument, Not(HasSubstr("tml-other"))));
}

}  // namespace
}  // namespace tinker::session::sampler_handle_test
