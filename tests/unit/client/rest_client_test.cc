#include "tinker/rest_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/rest.h"
#include "support/client_fixture.h"
#include "support/jwt.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::rest_client_test {
namespace {

using ::testing::_;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

constexpr auto kPath = "tinker://9a:train:0/weights/a";

struct Rest : ClientFixture {
  explicit Rest(const std::string& config = "{}") : ClientFixture(config) {}

  RestClient connect_alone() {
    return RestClient(connect_rest({.base_url = "http://server.test",
                                    .api_key = Secret("tml-secret-key"),
                                    .transport = server,
                                    .runtime = time.runtime()},
                                   variables())
                          .value());
  }
};

TEST(RestClient, MakesNoSession) {  // R1.4
  Rest f;
  f.server->reply("/api/v1/sessions", {{.body = R"({"sessions":[]})"}});

  EXPECT_THAT(f.connect_alone().list_sessions().get(), IsOk());
  EXPECT_THAT(f.connect().create_rest_client().list_sessions().get(), IsOk());

  EXPECT_THAT(f.server->sent("/create_session"), IsEmpty());
}

TEST(RestClient, ThoseOfOneServerAndKeyShareWhatTheyKnowOfIt) {  // R1.17
  Rest f;
  f.server->reply("/api/v1/sessions", {{.body = R"({"sessions":[]})"}});

  EXPECT_THAT(f.connect_alone().list_sessions().get(), IsOk());
  EXPECT_THAT(f.connect_alone().list_sessions().get(), IsOk());

  EXPECT_THAT(f.server->sent("/client/config"), SizeIs(1));
}

TEST(RestClient, KeepsItsServiceAlive) {
  Rest f;
  f.server->reply("/api/v1/sessions", {{.body = R"({"sessions":[]})", .delay = 1s}});
  auto rest = f.connect().create_rest_client();

  EXPECT_THAT(rest.list_sessions().get(), IsOk());
}

TEST(RestClient, RefusesPathsThatAreNoneBeforeAnyRequest) {  // R11.1, R11.13
  Rest f;
  const auto rest = f.connect_alone();

  EXPECT_THAT(rest.delete_checkpoint_from_tinker_path("weights/a").get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("weights/a")));
  EXPECT_THAT(rest.get_external_weights_urls(kPath).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("external_weights")));
  EXPECT_THAT(rest.list_checkpoints("").get(), IsError(ErrorCode::invalid_argument, _));
  EXPECT_THAT(rest.search_sessions({.limit = 201}).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("201")));  // R11.15
  EXPECT_THAT(f.server->sent(), IsEmpty());
}

TEST(RestClient, NeedsNoBodyWhereThereIsNothingToSay) {
  Rest f;
  f.server->reply("/checkpoints/weights/a", {{.status = 204}, {.body = ""}});
  const auto rest = f.connect_alone();

  EXPECT_THAT(rest.delete_checkpoint_from_tinker_path(kPath).get(), IsOk());
  EXPECT_THAT(rest.delete_checkpoint_from_tinker_path(kPath).get(), IsOk());
}

TEST(RestClient, EndsACallAtItsDeadline) {
  Rest f;
  f.server->reply("/api/v1/sessions", {{.status = 503}});

  EXPECT_THAT(f.connect_alone().with({.deadline = 20s}).list_sessions().get(),
              IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_EQ(f.time.elapsed(), 20s);
}

TEST(RestClient, CopiesIntoTheProjectOfTheEnvironment) {  // R11.14
  Rest f;
  f.server->reply("/copy_weights", {{.body = R"({"tinker_path":"tinker://7/weights/a"})"}});
  EXPECT_THAT(f.connect_alone().copy_weights(kPath).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("TINKER_PROJECT_ID")));

  f.environment["TINKER_PROJECT_ID"] = "proj-env";
  EXPECT_THAT(f.connect_alone().copy_weights(kPath).get(), IsOkAndHolds("tinker://7/weights/a"));
  auto options = f.options();
  options.project_id = "proj-mine";
  EXPECT_THAT(f.connect(options).copy_weights(kPath).get(), IsOk());

  EXPECT_THAT(f.bodies("/copy_weights")[0], HasSubstr("proj-env"));
  EXPECT_THAT(f.bodies("/copy_weights")[1], HasSubstr("proj-mine"));
}

TEST(RestClient, ACopyHasOneKeyOverAllRetries) {  // R11.14
  Rest f;
  f.server->reply("/copy_weights",
                  std::vector<testing::FakeReply>(13, {.status = 503}));  // beyond the HTTP layer
  auto copy = f.connect_alone().copy_weights(kPath, {.destination_project_id = "p"});
  f.time.advance(200s);
  f.server->reply("/copy_weights", {{.body = R"({"tinker_path":"tinker://7/weights/a"})"}});
  EXPECT_THAT(copy.get(), IsOk());

  const auto sent = f.server->sent("/copy_weights");
  ASSERT_GT(sent.size(), 12U);
  for (const auto& one : sent) {
    EXPECT_EQ(one.request.headers.find("x-idempotency-key"),
              sent[0].request.headers.find("x-idempotency-key"));
  }
}

TEST(RestClient, AForeignCredentialIsNeverShown) {  // R11.14
  Rest f;
  f.server->handle("/copy_weights", [](const http::Request& request) {
    return testing::FakeReply{
        .status = 403, .body = std::string(*request.headers.find("X-Tinker-Weights-Access-Token"))};
  });

  const auto copied = f.connect_alone()
                          .copy_weights(kPath,
                                        {.destination_project_id = "p",
                                         .weights_access_token = Secret("tml-owner-key")})
                          .get();

  EXPECT_THAT(copied, IsError(ErrorCode::permission_denied, Not(HasSubstr("tml-owner-key"))));
  EXPECT_THAT(f.log.text(), Not(HasSubstr("tml-owner-key")));
}

TEST(RestClient, WaitsForATrace) {  // R11.7
  Rest f;
  f.server->reply("/trace_export",
                  {{.body = R"({"status":"pending"})"},
                   {.body = R"({"status":"pending"})"},
                   {.body = R"({"status":"ready","url":"https://s/t"})"}});

  EXPECT_THAT(f.connect_alone().export_session_trace("s").get(), IsOkAndHolds("https://s/t"));

  EXPECT_EQ(f.time.elapsed(), 10s);
  EXPECT_THAT(f.log.lines("being exported"), SizeIs(1));
}

TEST(RestClient, SaysWhyThereIsNoTrace) {  // R11.7
  Rest f;
  f.server->reply("/trace_export", {{.body = R"({"status":"failed","error":"no events"})"}});

  EXPECT_THAT(f.connect_alone().export_session_trace("s").get(),
              IsError(ErrorCode::request_failed, HasSubstr("no events")));
}

TEST(RestClient, FindsTheArchiveOfAnOlderServer) {  // R11.4, R11.5
  Rest f;
  f.server->reply("/archive",
                  {{.status = 302,
                    .headers = {{"Location", "https://storage.test/a.tar?sig=1"},
                                {"Expires", "Wed, 27 May 2026 20:00:00 GMT"}}}});
  const auto rest = f.connect_alone();

  const auto found = rest.get_checkpoint_archive_url(kPath).get();

  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->url, "https://storage.test/a.tar?sig=1");
  EXPECT_EQ(found->expires.to_string(), "2026-05-27T20:00:00Z");

  f.server->reply(
      "/archive",
      {{.body = R"({"url":"https://storage.test/b","expires":"2026-05-27T20:00:00Z"})"}});
  EXPECT_THAT(rest.get_checkpoint_archive_url(kPath).get(),
              IsOkAndHolds(Field(&CheckpointArchiveUrlResponse::url, "https://storage.test/b")));

  f.server->reply("/archive", {{.status = 302}});
  EXPECT_THAT(rest.get_checkpoint_archive_url(kPath).get(),
              IsError(ErrorCode::unexpected_status, HasSubstr("302")));
  f.server->reply("/archive", {{.status = 404}});
  EXPECT_THAT(rest.get_checkpoint_archive_url(kPath).get(), IsError(ErrorCode::not_found, _));
}

TEST(RestClient, SaysWhoTheUserIs) {  // R3.12
  Rest f(R"({"pjwt_auth_enabled":true})");
  const auto jwt =
      testing::make_jwt(R"({"sub":"tml:user:1","org_id":"lab","exp":4102444800})").expose();
  f.server->reply("/auth/token", {{.body = R"({"jwt":")" + jwt + "\"}"}});

  const auto me = f.connect().whoami().get();

  ASSERT_THAT(me, IsOk());
  EXPECT_EQ(me->user_urn, "tml:user:1");
  EXPECT_EQ(me->org_urn, "tml:organization:lab");
}

TEST(RestClient, CannotSayWhoHasAPlainKey) {  // R3.12
  Rest f;

  EXPECT_THAT(f.connect().whoami().get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("does not say whose")));
}

}  // namespace
}  // namespace tinker::client::rest_client_test
