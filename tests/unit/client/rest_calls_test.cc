// What each call of the REST and admin clients sends.

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/rest.h"
#include "support/client_fixture.h"
#include "tinker/admin_client.h"
#include "tinker/rest_client.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::rest_calls_test {
namespace {

using ::testing::SizeIs;
using ::tinker::testing::IsOk;

constexpr auto kPath = "tinker://9a:train:0/weights/step 10";
constexpr auto kExternal = "tinker://9a:train:0/external_weights/final";
constexpr auto kRunAnswer =
    R"({"training_run_id":"9a:train:0","base_model":"llama","model_owner":"o","is_lora":true,"last_request_time":"2026-03-01T10:00:00Z"})";

/// Both clients over one server.
struct Rest : ClientFixture {
  std::shared_ptr<const RestState> state = connect_rest({.base_url = "http://server.test/base/",
                                                         .api_key = Secret("tml-secret-key"),
                                                         .transport = server,
                                                         .runtime = time.runtime()},
                                                        variables())
                                               .value();
  RestClient rest = RestClient(state);
  AdminClient admin = AdminClient(state);
};

struct CallCase {
  std::string name;  ///< Also the value of x-sdk-method.
  std::function<Result<void>(const Rest&)> make;
  std::string request;  ///< Method, path and query below the base URL.
  std::string body = {};
  std::string answer = "{}";
};

template <typename T>
Result<void> done(Future<T> future) {
  auto result = future.get();
  if (!result.ok()) return result.error();
  return {};
}

const std::vector<CallCase> kCases = {
    {"get_training_run",
     [](const Rest& f) { return done(f.rest.get_training_run("9a:train:0")); },
     "GET /api/v1/training_runs/9a:train:0?access_scope=owned",
     "",
     kRunAnswer},
    {"get_training_run_by_tinker_path",
     [](const Rest& f) {
       return done(f.rest.get_training_run_by_tinker_path(kPath, AccessScope::accessible));
     },
     "GET /api/v1/training_runs/9a:train:0?access_scope=accessible",
     "",
     kRunAnswer},
    {"list_training_runs",
     [](const Rest& f) { return done(f.rest.list_training_runs()); },
     "GET /api/v1/training_runs?limit=20&offset=0&access_scope=owned",
     "",
     R"({"training_runs":[],"cursor":{"offset":0,"limit":20,"total_count":0}})"},
    {"list_training_runs",
     [](const Rest& f) {
       return done(f.rest.list_training_runs({.limit = 5, .offset = 10, .project_id = "p 1"}));
     },
     "GET /api/v1/training_runs?limit=5&offset=10&access_scope=owned&project_id=p+1",
     "",
     R"({"training_runs":[],"cursor":{"offset":0,"limit":20,"total_count":0}})"},
    {"list_checkpoints",
     [](const Rest& f) { return done(f.rest.list_checkpoints("9a:train:0")); },
     "GET /api/v1/training_runs/9a:train:0/checkpoints",
     "",
     R"({"checkpoints":[]})"},
    {"list_user_checkpoints",
     [](const Rest& f) { return done(f.rest.list_user_checkpoints()); },
     "GET /api/v1/checkpoints?limit=100&offset=0",
     "",
     R"({"checkpoints":[]})"},
    {"get_weights_info_by_tinker_path",
     [](const Rest& f) { return done(f.rest.get_weights_info_by_tinker_path(kPath)); },
     "POST /api/v1/weights_info",
     R"({"tinker_path":"tinker://9a:train:0/weights/step 10"})",
     R"({"base_model":"llama","is_lora":true})"},
    {"get_external_weights_urls",
     [](const Rest& f) { return done(f.rest.get_external_weights_urls(kExternal)); },
     "GET "
     "/api/v1/training_runs/9a:train:0/checkpoints/external_weights/final/external_weights_urls",
     "",
     R"({"urls":{"a":"https://storage.test/a"},"expires":"2026-05-27T20:00:00Z"})"},
    {"copy_weights",
     [](const Rest& f) {
       return done(
           f.rest.copy_weights(kPath, {.destination_project_id = "proj-7", .ttl_seconds = 86400}));
     },
     "POST /api/v1/copy_weights",
     R"({"destination_project_id":"proj-7","source_path":"tinker://9a:train:0/weights/step 10","ttl_seconds":86400})",
     R"({"tinker_path":"tinker://77:train:0/weights/a"})"},
    {"delete_checkpoint",
     [](const Rest& f) { return done(f.rest.delete_checkpoint("9a:train:0", "weights/a/b")); },
     "DELETE /api/v1/training_runs/9a:train:0/checkpoints/weights/a%2Fb"},
    {"delete_checkpoint_from_tinker_path",
     [](const Rest& f) { return done(f.rest.delete_checkpoint_from_tinker_path(kPath)); },
     "DELETE /api/v1/training_runs/9a:train:0/checkpoints/weights/step%2010"},
    {"publish_checkpoint_from_tinker_path",
     [](const Rest& f) { return done(f.rest.publish_checkpoint_from_tinker_path(kPath)); },
     "POST /api/v1/training_runs/9a:train:0/checkpoints/weights/step%2010/publish"},
    {"unpublish_checkpoint_from_tinker_path",
     [](const Rest& f) { return done(f.rest.unpublish_checkpoint_from_tinker_path(kPath)); },
     "DELETE /api/v1/training_runs/9a:train:0/checkpoints/weights/step%2010/publish"},
    {"set_checkpoint_ttl_from_tinker_path",
     [](const Rest& f) { return done(f.rest.set_checkpoint_ttl_from_tinker_path(kPath, 86400)); },
     "PUT /api/v1/training_runs/9a:train:0/checkpoints/weights/step%2010/ttl",
     R"({"ttl_seconds":86400})"},
    {"set_checkpoint_ttl_from_tinker_path",  // R11.2
     [](const Rest& f) {
       return done(f.rest.set_checkpoint_ttl_from_tinker_path(kPath, std::nullopt));
     },
     "PUT /api/v1/training_runs/9a:train:0/checkpoints/weights/step%2010/ttl",
     R"({"ttl_seconds":null})"},
    {"get_session",
     [](const Rest& f) { return done(f.rest.get_session("0f8")); },
     "GET /api/v1/sessions/0f8?access_scope=owned",
     "",
     R"({"training_run_ids":[],"sampler_ids":[]})"},
    {"list_sessions",
     [](const Rest& f) { return done(f.rest.list_sessions()); },
     "GET /api/v1/sessions?limit=20&offset=0&access_scope=owned",
     "",
     R"({"sessions":["0f8"]})"},
    {"search_sessions",
     [](const Rest& f) {
       return done(f.rest.search_sessions({.display_name = "night", .limit = 10}));
     },
     "POST /api/v1/sessions/search",
     R"({"user_metadata":{},"display_name":"night","owner":{"type":"own"},"limit":10})",
     R"({"sessions":[]})"},
    {"assign_session_project",
     [](const Rest& f) { return done(f.rest.assign_session_project("0f8", "proj-7")); },
     "PUT /api/v1/sessions/0f8/project",
     R"({"project_id":"proj-7"})"},
    {"export_session_trace",
     [](const Rest& f) { return done(f.rest.export_session_trace("0f8")); },
     "GET /api/v1/sessions/0f8/trace_export",
     "",
     R"({"status":"ready","url":"https://storage.test/t"})"},
    {"get_sampler",
     [](const Rest& f) { return done(f.rest.get_sampler("0f8:sample:1")); },
     "GET /api/v1/samplers/0f8:sample:1",
     "",
     R"({"sampler_id":"0f8:sample:1","base_model":"llama"})"},
    {"get_audit_log",
     [](const Rest& f) {
       return done(
           f.admin.get_audit_log({.event_type = AuditEventType::checkpoints, .day = "2026-01-15"}));
     },
     "GET /api/v1/audit?event_type=checkpoints&day=2026-01-15",
     "",
     R"({"entries":[]})"},
    {"get_billing_usage",
     [](const Rest& f) {
       return done(f.admin.get_billing_usage(DateTime::parse("2026-07-13T00:00:00Z").value(),
                                             DateTime::parse("2026-07-14T00:00:00Z").value()));
     },
     "GET "
     "/api/v1/billing/usage/"
     "events?starting_on=2026-07-13T00%3A00%3A00Z&ending_before=2026-07-14T00%3A00%3A00Z",
     "",
     R"({"data":[]})"},
    {"get_current_checkpoint_storage_usage",
     [](const Rest& f) { return done(f.admin.get_current_checkpoint_storage_usage()); },
     "GET /api/v1/billing/usage/checkpoints/current",
     "",
     R"({"data":[]})"},
    {"get_current_checkpoint_storage_usage",
     [](const Rest& f) { return done(f.admin.get_current_checkpoint_storage_usage("proj-7")); },
     "GET /api/v1/billing/usage/checkpoints/current?project_id=proj-7",
     "",
     R"({"data":[]})"},
};

class RestCall : public ::testing::TestWithParam<CallCase> {};

TEST_P(RestCall, SendsWhatTheProtocolSays) {  // PROTOCOL 9.20 to 9.47
  Rest f;
  const CallCase& expected = GetParam();
  const auto below = expected.request.substr(expected.request.find(' ') + 1);
  f.server->reply("/base" + below.substr(0, below.find('?')), {{.body = expected.answer}});

  EXPECT_THAT(expected.make(f), IsOk());

  const auto requests = f.server->sent();
  const auto& sent = requests.back().request;
  EXPECT_EQ(std::string(to_string(sent.method)) + " " +
                sent.url.substr(std::string("http://server.test/base").size()),
            expected.request);
  EXPECT_EQ(http::view(sent.body), expected.body);
  EXPECT_EQ(sent.headers.find("x-sdk-method"), expected.name);
  EXPECT_EQ(sent.headers.find("x-sdk-version"), "0.36.0");
}

TEST_P(RestCall, IsAskedAgainWhenTheServerIsOverloaded) {  // R5.6
  Rest f;
  const CallCase& expected = GetParam();
  const auto below = expected.request.substr(expected.request.find(' ') + 1);
  const auto path = "/base" + below.substr(0, below.find('?'));
  f.server->reply(path, {{.status = 503}, {.body = expected.answer}});

  EXPECT_THAT(expected.make(f), IsOk());

  EXPECT_THAT(f.server->sent(path), SizeIs(2));
}

INSTANTIATE_TEST_SUITE_P(All, RestCall, ::testing::ValuesIn(kCases), [](const auto& test) {
  return test.param.name + "_" + std::to_string(test.index);
});

}  // namespace
}  // namespace tinker::client::rest_calls_test
