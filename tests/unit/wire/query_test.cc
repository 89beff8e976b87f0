// Query strings (PROTOCOL 4.1) of the GET endpoints of PROTOCOL 9.

#include "wire/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "tinker/types/billing.h"
#include "tinker/types/queries.h"

namespace tinker::wire::query_test {
namespace {

using ::testing::StartsWith;
using tinker::testing::IsError;
using tinker::testing::IsOkAndHolds;

TEST(Query, WritesDefaultsAndLeavesNullOut) {  // PROTOCOL 9.22, 9.30, 9.31, 9.35
  EXPECT_THAT(encode_query(ListTrainingRunsQuery{}),
              IsOkAndHolds("limit=20&offset=0&access_scope=owned"));
  EXPECT_THAT(encode_query(ListCheckpointsQuery{}), IsOkAndHolds("limit=100&offset=0"));
  EXPECT_THAT(encode_query(ListSessionsQuery{}),
              IsOkAndHolds("limit=20&offset=0&access_scope=owned"));
  EXPECT_THAT(encode_query(AccessQuery{}), IsOkAndHolds("access_scope=owned"));
  EXPECT_THAT(encode_query(AuditLogQuery{}), IsOkAndHolds("event_type=all"));
  EXPECT_THAT(encode_query(GetCurrentCheckpointStorageUsageRequest{}), IsOkAndHolds(""));
}

TEST(Query, EscapesReservedCharacters) {  // PROTOCOL 4.1; 9.36 shows the colon
  EXPECT_THAT(encode_query(ListTrainingRunsQuery{.project_id = "a b&c=d/é"}),
              IsOkAndHolds("limit=20&offset=0&access_scope=owned&project_id=a+b%26c%3Dd%2F%C3%A9"));
  EXPECT_THAT(
      encode_query(
          GetBillingUsageRequest{.starting_on = DateTime::parse("2026-07-13T00:00:00Z").value(),
                                 .ending_before = DateTime::parse("2026-07-14T00:00:00Z").value()}),
      IsOkAndHolds("starting_on=2026-07-13T00%3A00%3A00Z&ending_before=2026-07-14T00%3A00%3A00Z"));
}

TEST(Query, DropsEmptyStrings) {
  EXPECT_THAT(encode_query(AuditLogQuery{.day = ""}), IsOkAndHolds("event_type=all"));
}

TEST(Query, ReadsWhatItWrites) {
  const ListTrainingRunsQuery query = {
      .limit = 7, .offset = 14, .access_scope = AccessScope::accessible, .project_id = "a b&c=d%é"};

  EXPECT_THAT(decode_query<ListTrainingRunsQuery>(encode_query(query).value()),
              IsOkAndHolds(query));
}

TEST(Query, ReadsAbsentMembersAsDefaults) {
  EXPECT_THAT(decode_query<ListSessionsQuery>(""), IsOkAndHolds(ListSessionsQuery{}));
  EXPECT_THAT(decode_query<AuditLogQuery>("day=2026-01-15"),
              IsOkAndHolds(AuditLogQuery{.day = "2026-01-15"}));
}

TEST(Query, KeepsTextThatLooksLikeANumber) {
  EXPECT_THAT(decode_query<GetCurrentCheckpointStorageUsageRequest>("project_id=42"),
              IsOkAndHolds(GetCurrentCheckpointStorageUsageRequest{.project_id = "42"}));
}

TEST(Query, RefusesNumbersBeyond64Bits) {
  EXPECT_THAT(decode_query<ListSessionsQuery>("offset=99999999999999999999"),
              IsError(ErrorCode::invalid_argument, StartsWith("offset: expected an integer")));
}

TEST(Query, NamesTheMemberThatIsWrong) {
  EXPECT_THAT(decode_query<ListSessionsQuery>("limit=many"),
              IsError(ErrorCode::invalid_argument, StartsWith("limit: expected an integer")));
  EXPECT_THAT(decode_query<ListSessionsQuery>("access_scope=all"),
              IsError(ErrorCode::invalid_argument, StartsWith("access_scope: expected one of")));
  EXPECT_THAT(decode_query<ListSessionsQuery>("zz=1"),
              IsError(ErrorCode::invalid_argument, StartsWith("zz: unknown member")));
  EXPECT_THAT(
      decode_query<ListSessionsQuery>("limit=%4"),
      IsError(ErrorCode::invalid_argument, StartsWith("$: expected two hexadecimal digits")));
}

}  // namespace
}  // namespace tinker::wire::query_test
