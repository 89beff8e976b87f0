#include "session/rest_services.h"

#include <gmock/gmock.h>

#include "support/holder_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::session::rest_services_test {
namespace {

using ::testing::SizeIs;
using ::tinker::testing::IsOk;

struct RestServicesTest : ::testing::Test, HolderFixture {
  std::shared_ptr<Service> find(std::string url, std::string key) {
    auto with = options();
    with.base_url = std::move(url);
    with.api_key = Secret(std::move(key));
    return RestServices::find_or_make(time.runtime().core(), std::move(with));
  }
};

TEST_F(RestServicesTest, AreSharedByThoseWithTheSameArguments) {  // R1.17
  const auto one = find("http://a.test", "tml-1");

  EXPECT_EQ(find("http://a.test", "tml-1"), one);
  EXPECT_NE(find("http://a.test", "tml-2"), one);
  EXPECT_NE(find("http://b.test", "tml-1"), one);
}

TEST_F(RestServicesTest, AskForTheConfigurationOnce) {  // R1.17
  const auto& core = time.runtime().core();
  for (int i = 0; i < 2; ++i) {
    const auto service = find("http://a.test", "tml-1");
    ASSERT_THAT(core->spawn(service->scope(), service->rest_holder()).get(), IsOk());
  }

  EXPECT_THAT(server->sent("/client/config"), SizeIs(1));
}

TEST_F(RestServicesTest, EndWithTheirRuntime) {
  const std::weak_ptr<Service> service = find("http://a.test", "tml-1");
  EXPECT_FALSE(service.expired());

  time.drop();
  time.run_ready();

  EXPECT_TRUE(service.expired());
}

}  // namespace
}  // namespace tinker::session::rest_services_test
