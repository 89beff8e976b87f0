// What the audit tells of logins and logouts (PROTOCOL 9.35, 9.48).
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/raw_http.h"
#include "tinker/admin_client.h"
#include "tinker/local_server.h"

namespace tinker::audit_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Audit : public ::testing::Test {
 protected:
  static constexpr const char* kAda = "tml-ada-0123456789abcdef";
  static constexpr const char* kSpare = "tml-ada-of-the-other-machine";
  static constexpr const char* kBob = "tml-bob-0123456789abcdef";

  [[nodiscard]] int ask(const std::string& method,
                        const std::string& path,
                        const std::string& key) const {
    return testing::RawHttp(server.port())
        .ask(method, "/api/v1/" + path, {}, "X-API-Key: " + key + "\r\n")
        .status;
  }
  [[nodiscard]] std::vector<std::string> events(const std::string& key) const {
    const auto admin =
        AdminClient::connect({.base_url = server.base_url(), .api_key = Secret(key)}).value();
    std::vector<std::string> out;
    for (const auto& entry :
         admin.get_audit_log({.event_type = AuditEventType::organizations}).get().value().entries) {
      out.push_back(entry.event);
    }
    return out;
  }

  LocalServer server =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
                          .keys = {{.owner = "ada", .key = Secret(kAda)},
                                   {.owner = "ada", .key = Secret(kSpare)},
                                   {.owner = "bob", .key = Secret(kBob)}},
                          .threads = 1,
                          .flags = {{"pjwt_auth_enabled", "off"}}})
          .value();
};

TEST_F(Audit, NamesLoginsAndLogoutsOfTheOwner) {
  ASSERT_EQ(ask("GET", "auth/apikey/me", kSpare), 200);  // `tinker auth login`
  ASSERT_EQ(ask("DELETE", "auth/apikey/me", kSpare), 200);
  ASSERT_EQ(ask("GET", "auth/apikey/me", kSpare), 401);

  EXPECT_THAT(events(kAda), ElementsAre("organization_login", "organization_logout"));
  EXPECT_THAT(events(kBob), IsEmpty());
}

/// Nobody logs in where any key will do.
class AuditWithoutKeys : public ::testing::Test {
 protected:
  static LocalServer start(const std::string& flag) {
    return LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
                               .threads = 1,
                               .flags = {{"pjwt_auth_enabled", flag}}})
        .value();
  }
  static int ask(const LocalServer& server, const std::string& method, const std::string& path) {
    return testing::RawHttp(server.port())
        .ask(method, "/api/v1/" + path, {}, "X-API-Key: tml-any\r\n")
        .status;
  }
  static std::size_t entries(const LocalServer& server) {
    const auto admin =
        AdminClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-any")}).value();
    return admin.get_audit_log().get().value().entries.size();
  }
};

TEST_F(AuditWithoutKeys, HasNoEntryOfATokenThatSomebodyAskedFor) {
  const auto server = start("on");

  EXPECT_EQ(ask(server, "POST", "auth/token"), 200);

  EXPECT_EQ(entries(server), 0U);
}

TEST_F(AuditWithoutKeys, HasNoEntryOfAnyKeyAndTokensAreOff) {
  const auto server = start("off");

  EXPECT_EQ(ask(server, "POST", "auth/token"), 404);
  EXPECT_EQ(ask(server, "GET", "auth/apikey/me"), 200);
  EXPECT_EQ(ask(server, "DELETE", "auth/apikey/me"), 200);
  EXPECT_EQ(ask(server, "GET", "auth/apikey/me"), 200);

  EXPECT_EQ(entries(server), 0U);
}

}  // namespace
}  // namespace tinker::audit_test
