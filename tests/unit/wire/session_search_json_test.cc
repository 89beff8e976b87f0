// The search for sessions and its limits (PROTOCOL 9.46).

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/session_search.h"
#include "wire/json.h"

namespace tinker::wire::session_search_json_test {
namespace {

using ::testing::StartsWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

auto is_refused(std::string_view message) {
  return IsError(ErrorCode::invalid_argument, std::string(message));
}

TEST(SessionSearchJson, SendsItsDefaults) {  // metadata, owner and limit always
  constexpr std::string_view kDefaults =
      R"({"user_metadata":{},"owner":{"type":"own"},"limit":50})";
  EXPECT_THAT(encode_json(SessionSearchRequest{}), IsOkAndHolds(kDefaults));
  EXPECT_THAT(echo<SessionSearchRequest>("{}"), IsOkAndHolds(kDefaults));
}

TEST(SessionSearchJson, SendsWhatIsGiven) {
  constexpr std::string_view kBody =
      R"({"session_id":"s","project_ids":["p"],"user_metadata":{},"display_name":"d",)"
      R"("owner":{"type":"user","owner_urns":["u"]},"limit":200})";
  EXPECT_THAT(echo<SessionSearchRequest>(kBody), IsOkAndHolds(kBody));
}

TEST(SessionSearchJson, LimitsThePage) {  // 1…200
  EXPECT_THAT(decode_json<SessionSearchRequest>(R"({"limit":1})"), IsOk());
  EXPECT_THAT(decode_json<SessionSearchRequest>(R"({"limit":200})"), IsOk());
  EXPECT_THAT(decode_json<SessionSearchRequest>(R"({"limit":0})"),
              is_refused("limit: expected 1 to 200, found 0"));
  EXPECT_THAT(encode_json(SessionSearchRequest{.limit = 201}),
              is_refused("limit: expected 1 to 200, found 201"));
}

TEST(SessionSearchJson, NeedsANameOfOneCharacter) {
  EXPECT_THAT(decode_json<SessionSearchRequest>(R"({"display_name":""})"),
              is_refused("display_name: expected at least one character, found none"));
}

TEST(SessionSearchJson, NeedsAStatusAndAReason) {  // array (≥ 1)
  EXPECT_THAT(decode_json<SessionSearchRequest>(R"({"statuses":[]})"),
              is_refused("statuses: expected at least one status, found none"));
  EXPECT_THAT(decode_json<SessionSearchRequest>(
                  R"({"statuses":[{"type":"client_finished","reasons":[]}]})"),
              is_refused("statuses[0].reasons: expected at least one reason, found none"));
  EXPECT_THAT(decode_json<SessionSearchRequest>(
                  R"({"statuses":[{"type":"client_finished","reasons":["bored"]}]})"),
              IsError(ErrorCode::invalid_argument,
                      StartsWith("statuses[0].reasons[0]: expected one of 'success'")));
}

TEST(SessionSearchJson, OmitsNullReasons) {
  EXPECT_THAT(echo<ClientFinishedSessionStatusQuery>(R"({"reasons":null})"),
              IsOkAndHolds(R"({"type":"client_finished"})"));
}

TEST(SessionSearchJson, TakesOneToTenOwners) {
  const auto owners = [](std::size_t count) {
    return encode_json(UserSearchOwner{.owner_urns = std::vector<std::string>(count, "u")});
  };
  EXPECT_THAT(owners(1), IsOk());
  EXPECT_THAT(owners(10), IsOk());
  EXPECT_THAT(owners(0), is_refused("owner_urns: expected 1 to 10 owners, found 0"));
  EXPECT_THAT(owners(11), is_refused("owner_urns: expected 1 to 10 owners, found 11"));
  EXPECT_THAT(decode_json<UserSearchOwner>(R"({"owner_urns":[]})"),
              is_refused("owner_urns: expected 1 to 10 owners, found 0"));
}

TEST(SessionSearchJson, NeedsACursorWithAnOffset) {  // datetime with offset
  EXPECT_THAT(decode_json<SessionSearchRequest>(
                  R"({"cursor":{"last_created_at":"2026-01-01T00:00:00","last_session_id":"s"}})"),
              is_refused("cursor.last_created_at: expected a date and time with an offset, found "
                         "none"));
}

TEST(SessionSearchJson, ReadsAPage) {
  const auto page = decode_json<SessionSearchResponse>(
      R"({"sessions":[{"session_id":"0f8fad5b","created_at":"2026-01-01T00:00:00Z",)"
      R"("owner":"tml:organization_user:abc","project_id":"proj-7","status":{"type":"active"},)"
      R"("checkpoints_count":2}],"next_cursor":null})");

  EXPECT_THAT(page,
              IsOkAndHolds(SessionSearchResponse{
                  .sessions = {{.session_id = "0f8fad5b",
                                .created_at = DateTime::parse("2026-01-01T00:00:00Z").value(),
                                .owner = "tml:organization_user:abc",
                                .project_id = "proj-7",
                                .status = SessionActive{},
                                .checkpoints_count = 2}}}));
}

TEST(SessionSearchJson, ReadsTheNextCursor) {
  const auto page = decode_json<SessionSearchResponse>(
      R"({"sessions":[],"next_cursor":{"last_created_at":"2026-01-01T00:00:00+02:00",)"
      R"("last_session_id":"s"}})");
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(page->next_cursor->last_session_id, "s");
  EXPECT_EQ(page->next_cursor->last_created_at.to_string(), "2026-01-01T00:00:00+02:00");
}

TEST(SessionSearchJson, RefusesASessionWithoutAProject) {  // a null project invalidates the page
  EXPECT_THAT(decode_json<SessionSearchResponse>(
                  R"({"sessions":[{"session_id":"s","created_at":0,"owner":"o",)"
                  R"("project_id":null,"checkpoints_count":0}]})"),
              IsError(ErrorCode::invalid_response,
                      "sessions[0].project_id: expected a string, found null"));
}

}  // namespace
}  // namespace tinker::wire::session_search_json_test
