#include "tinker/auth.h"

#include <array>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>

#include "client/auth.h"
#include "support/client_fixture.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::auth_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::TemporaryFolder;

struct Access : ClientFixture {
  explicit Access(const std::string& config = "{}") : ClientFixture(config) {
    server->reply("/get_server_capabilities", {{.body = R"({"supported_models":[]})"}});
  }
  Result<void> check() {
    return check_accessible({.base_url = "http://server.test",
                             .api_key = Secret("tml-secret-key"),
                             .transport = server,
                             .runtime = runtime},
                            variables())
        .get();
  }
  [[nodiscard]] std::vector<std::string> asked() const {
    std::vector<std::string> out;
    for (const auto& sent : server->sent()) out.push_back(sent.path.substr(7));
    return out;
  }
};

TEST(AccessCheck, AsksAllThatAClientWouldAndNothingElse) {  // R5.5.6
  Access f;

  EXPECT_THAT(f.check(), IsOk());

  EXPECT_THAT(f.asked(),
              ElementsAre("/client/config", "/client/dynamic_config", "/get_server_capabilities"));
  f.time.advance(10min);
  EXPECT_THAT(f.asked(), SizeIs(3)) << "leaves nothing behind";
}

TEST(AccessCheck, RepeatsNothing) {  // R5.5.6, D16
  for (const char* path :
       {"/client/config", "/client/dynamic_config", "/get_server_capabilities"}) {
    for (const int status : {402, 408, 429, 500, 503}) {
      Access f;
      f.server->reply(path, {{.status = status, .body = "no"}});

      const auto access = f.check();

      EXPECT_THAT(access, IsError(error_code_for_status(status), _)) << path;
      EXPECT_THAT(f.server->sent(path), SizeIs(1)) << status;
      EXPECT_EQ(f.time.elapsed(), 0s) << path << " " << status;
    }
  }
}

TEST(AccessCheck, SaysAtOnceThatThereIsNoServer) {  // D16
  Access f;
  f.server->reply("/client/config", {{.error = Error{.code = ErrorCode::connection_failed}}});

  EXPECT_THAT(f.check(), IsError(ErrorCode::connection_failed, _));

  EXPECT_EQ(f.time.elapsed(), 0s);
}

TEST(AccessCheck, ExchangesTheKeyWhereTheServerDoes) {
  Access f(R"({"pjwt_auth_enabled":true})");
  f.server->reply("/auth/token", {{.status = 401, .body = "who?"}});

  EXPECT_THAT(f.check(), IsError(ErrorCode::unauthenticated, HasSubstr("who?")));

  EXPECT_THAT(f.server->sent("/auth/token"), SizeIs(1));
}

TEST(AccessCheck, NeedsACredential) {
  Access f;

  EXPECT_THAT(check_accessible(
                  {.base_url = "http://server.test", .transport = f.server, .runtime = f.runtime},
                  f.variables())
                  .get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("TINKER_API_KEY")));

  EXPECT_THAT(f.server->sent(), IsEmpty());
}

TEST(AccessCheck, IsAlwaysANewOne) {
  Access f;
  ASSERT_THAT(f.check(), IsOk());
  f.server->reply("/client/config", {{.status = 403, .body = "no"}});

  EXPECT_THAT(f.check(), IsError(ErrorCode::permission_denied, _));
}

TEST(AccessCheck, RunsOnThreadsOfItsOwn) {
  // Nobody listens there: reserved, and below what a server may use unprivileged.
  auto access =
      auth::check_tinker_accessible({.base_url = "http://127.0.0.1:1",
                                     .api_key = Secret("tml-secret-key"),
                                     .transport_options = {.use_environment_proxy = false}});

  EXPECT_THAT(access.get(), IsError(ErrorCode::connection_failed, _));
}

/// Sets variables of this process, and puts them back.
class ProcessVariables {
 public:
  ProcessVariables() {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no other thread
      saved_.emplace_back(name,
                          value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
    }
  }
  ProcessVariables(const ProcessVariables&) = delete;
  ProcessVariables& operator=(const ProcessVariables&) = delete;
  ~ProcessVariables() {
    for (const auto& [name, value] : saved_) {
      ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
      if (value) set(name, *value);
    }
  }
  static void set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }

 private:
  static constexpr std::array kNames = {
      "HOME", "TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"};
  std::vector<std::pair<const char*, std::optional<std::string>>> saved_;
};

TEST(Auth, FindsTheKeyOfTheEnvironmentThenTheStoredOne) {  // R3.16
  const ProcessVariables variables;
  const TemporaryFolder home;
  ProcessVariables::set("HOME", home.path());
  EXPECT_EQ(auth::get_tinker_token(), std::nullopt);
  EXPECT_FALSE(auth::tinker_has_credentials());

  home.write(
      ".tinker/credentials.json",
      R"({"version":1,"default":"1","keys":{"1":{"type":"manual","key":"tml-stored","name":"n"}}})");
  EXPECT_THAT(auth::get_tinker_token(), Optional(Secret("tml-stored")));
  EXPECT_TRUE(auth::tinker_has_credentials());

  ProcessVariables::set("TINKER_API_KEY", "tml-variable");
  EXPECT_THAT(auth::get_tinker_token(), Optional(Secret("tml-variable")));
  ProcessVariables::set("TINKER_API_KEY", "not a key");
  EXPECT_EQ(auth::get_tinker_token(), std::nullopt) << "any problem gives nothing";
}

TEST(Auth, ACommandCountsButIsNotRun) {  // R3.16
  const ProcessVariables variables;
  const TemporaryFolder home;
  ProcessVariables::set("HOME", home.path());
  ProcessVariables::set("TINKER_CREDENTIAL_CMD", "touch " + home.path("ran"));

  EXPECT_TRUE(auth::tinker_has_credentials());
  EXPECT_EQ(auth::get_tinker_token(), std::nullopt);

  EXPECT_FALSE(std::filesystem::exists(home.path("ran")));
}

}  // namespace
}  // namespace tinker::client::auth_test
