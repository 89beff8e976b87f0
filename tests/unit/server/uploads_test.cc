#include "server/uploads.h"

#include <chrono>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::server::uploads_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;

const Instant kNow = Instant(1'000s);

auto place(const char* name) {
  return Field(&CheckpointPlace::name, name);
}

Upload upload(const char* owner, Instant expires) {
  return {.run = {.owner = owner}, .place = {.name = owner}, .expires = expires};
}

TEST(Uploads, AreCountedByOwner) {
  Uploads uploads(2);
  uploads.add("1", upload("ada", kNow));
  EXPECT_THAT(uploads.check_room("ada"), IsOk());
  uploads.add("2", upload("ada", kNow));

  EXPECT_THAT(uploads.check_room("ada"), IsError(ErrorCode::rate_limited, HasSubstr("2 uploads")));
  EXPECT_THAT(uploads.check_room("bob"), IsOk());
  uploads.remove("1");
  EXPECT_THAT(uploads.check_room("ada"), IsOk());
}

TEST(Uploads, ExpireUnlessTheyAreBeingFinished) {
  Uploads uploads(2);
  uploads.add("1", upload("ada", kNow));
  uploads.add("2", upload("bob", kNow));
  uploads.add("3", upload("eve", kNow + 1s));
  uploads.find("2")->is_finishing = true;

  EXPECT_THAT(uploads.take_expired(kNow - 1s), IsEmpty());
  EXPECT_THAT(uploads.take_expired(kNow), ElementsAre(place("ada")));
  EXPECT_EQ(uploads.find("1"), nullptr);
  EXPECT_NE(uploads.find("2"), nullptr);
  EXPECT_NE(uploads.find("3"), nullptr);
}

TEST(Uploads, DoNotExpireBeforeTheyHaveAPlace) {
  Uploads uploads(2);
  uploads.add("1", {.run = {.owner = "ada"}, .expires = kNow});

  EXPECT_THAT(uploads.take_expired(kNow), IsEmpty());
  ASSERT_NE(uploads.find("1"), nullptr);
  uploads.find("1")->place.name = "ada";
  EXPECT_THAT(uploads.take_expired(kNow), ElementsAre(place("ada")));
}

}  // namespace
}  // namespace tinker::server::uploads_test
