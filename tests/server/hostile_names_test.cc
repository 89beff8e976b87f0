// Paths, names and methods that no client would send.
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "hostile_server.h"

namespace tinker::hostile_names_test {
namespace {

using ::testing::AllOf;
using testing::fill;
using ::testing::Ge;
using testing::HostileServer;
using testing::IsUsersFault;
using testing::kAda;
using ::testing::Lt;
using testing::RawHttp;

class HostileName : public HostileServer, public ::testing::WithParamInterface<const char*> {};

TEST_P(HostileName, IsNowhereToBeFound) {
  std::string name = GetParam();
  if (name == "long") name.assign(300, 'n');
  if (name == "longest") name.assign(7'000, 'n');
  for (const auto& endpoint : server::endpoint_names()) {
    if (endpoint.path.find('{') == std::string_view::npos) continue;
    const auto method = http::to_string(endpoint.method);
    const auto path = fill(endpoint.path, name);
    SCOPED_TRACE(std::string(method) + " " + path.substr(0, 200));

    const auto answer = ask(method, path, R"({"ttl_seconds":7200,"project_id":"p"})");

    EXPECT_THAT(answer.status, AllOf(Ge(400), Lt(500))) << answer.body;
  }
}

INSTANTIATE_TEST_SUITE_P(,
                         HostileName,
                         ::testing::Values("..",
                                           ".",
                                           "%2e%2e",
                                           "..%2fx",
                                           "weights/..%2fx",
                                           "%2e%2e%2f%2e%2e%2fsecret",
                                           "..%5c..%5csecret",
                                           "%2fetc%2fpasswd",
                                           "%00",
                                           "a%00b",
                                           "%ff%fe",
                                           "%",
                                           "%zz",
                                           "%c0%ae%c0%ae",
                                           "'%20OR%20'1'='1",
                                           "*",
                                           "long",
                                           "longest"));

/// The folders of a real checkpoint, to be reached by other names.
TEST_F(HostileServer, ReachesNoFileByAnotherName) {
  const auto run = new_run(new_session());
  ASSERT_EQ(outcome(post("save_weights_for_sampler",
                         R"({"model_id":")" + run + R"(","path":"mine","seq_id":1})"))
                .status,
            200);
  for (const char* name : {"sampler_weights/../weights/mine",
                           "sampler_weights%2fmine",
                           "sampler_weights/./mine",
                           "sampler_weights//mine",
                           "sampler_weights/mine%00",
                           "sampler_weights/mine/..%2fmine",
                           "SAMPLER_WEIGHTS/mine",
                           "weights/mine"}) {
    EXPECT_EQ(ask("GET", "training_runs/" + run + "/checkpoints/" + name + "/archive").status / 100,
              4)
        << name;
  }
}

class HostileSave : public HostileServer, public ::testing::WithParamInterface<const char*> {};

TEST_P(HostileSave, IsRefusedForItsName) {
  const auto run = new_run(new_session());
  std::string name = GetParam();
  if (name == "long") name.assign(300, 'n');
  int number = 0;
  for (const char* save : {"save_weights", "save_weights_for_sampler", "save_weights_external"}) {
    const auto body = R"({"model_id":")" + run + R"(","path":")" + name + R"(","seq_id":)" +
                      std::to_string(++number) + "}";

    EXPECT_THAT(outcome(post(save, body)), IsUsersFault()) << save;
  }
  const auto kept = ask("GET", "training_runs/" + run + "/checkpoints");
  EXPECT_EQ(kept.body.find("tinker_path"), std::string::npos) << kept.body;
  EXPECT_TRUE(std::filesystem::is_empty(server_.data_dir() / "checkpoints"));
}

INSTANTIATE_TEST_SUITE_P(,
                         HostileSave,
                         ::testing::Values("",
                                           "..",
                                           ".",
                                           "../x",
                                           "/tmp/x",
                                           "a/b",
                                           "a\\\\b",
                                           "a\\u0000b",
                                           "\\u00e9",
                                           "\xC3\x28",
                                           "a b",
                                           "long"));

TEST_F(HostileServer, LoadsNothingFromOutsideItsCatalogue) {
  const auto run = new_run(new_session());
  int number = 0;
  for (const char* path : {"tinker://x/weights/../../secret",
                           "/etc/passwd",
                           "file:///etc/passwd",
                           "tinker://../weights/x",
                           "tinker://x/weights/x/y",
                           "tinker://",
                           ""}) {
    const auto body = R"({"model_id":")" + run + R"(","path":")" + path + R"(","seq_id":)" +
                      std::to_string(++number) + R"(,"optimizer":false})";

    EXPECT_THAT(outcome(post("load_weights", body)), IsUsersFault()) << path;
    EXPECT_EQ(post("weights_info", R"({"tinker_path":")" + std::string(path) + "\"}").status / 100,
              4)
        << path;
  }
}

TEST_F(HostileServer, AnswersOnlyToTheMethodsOfAnEndpoint) {
  std::set<std::pair<std::string, std::string>> served;
  const auto endpoints = server::endpoint_names();
  const auto is_served = [&](std::string_view method, const std::string& path) {
    return std::ranges::any_of(endpoints, [&](const auto& endpoint) {
      return http::to_string(endpoint.method) == method && fill(endpoint.path, "x") == path;
    });
  };
  for (const auto& endpoint : endpoints) {
    const auto path = fill(endpoint.path, "x");
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "PATCH"}) {
      if (is_served(method, path)) continue;
      if (path == "sessions/search" && std::string_view(method) == "GET") continue;  // an id, too
      EXPECT_EQ(ask(method, path).status, 405) << method << " " << path;
    }
  }
}

TEST_F(HostileServer, KnowsNoOtherPaths) {
  for (const char* path : {"/",
                           "/api",
                           "/api/v1",
                           "/api/v1/",
                           "/api/v2/healthz",
                           "/api/v1/healthz/",
                           "/api/v1//healthz",
                           "/api/v1/HEALTHZ",
                           "/api/v1/sessions/../healthz",
                           "/api/v1/%68ealthz",
                           "/healthz",
                           "/.env",
                           "/api/v1/training_runs//checkpoints"}) {
    RawHttp client(server_.port());
    EXPECT_EQ(client.ask("GET", path, "", "X-API-Key: " + std::string(kAda) + "\r\n").status, 404)
        << path;
  }
}

TEST_F(HostileServer, RefusesWhatIsNoRequest) {
  for (const std::string bytes : {"GET /api/v1/healthz\r\n\r\n",
                                  "\x16\x03\x01\x02 hello TLS\r\n\r\n",
                                  "GET  /  HTTP/1.1\r\n\r\n",
                                  "BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                  "GET / HTTP/3.0\r\nHost: localhost\r\n\r\n",
                                  "GET / HTTP/1.1\r\n\r\n",
                                  "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                                  "GET / HTTP/1.1\r\nHost: localhost\r\nX y: 1\r\n\r\n"}) {
    RawHttp client(server_.port());
    client.send(bytes);
    client.finish();
    const int status = client.receive().status;
    EXPECT_TRUE(status == 0 || (status >= 400 && status <= 505 && status != 500)) << bytes;
  }
}

TEST_F(HostileServer, RefusesEndlessHeads) {
  RawHttp client(server_.port());
  const std::string headers = "X-Long: " + std::string(1 << 20, 'x') + "\r\n";

  EXPECT_EQ(client.ask("GET", "/api/v1/healthz", "", headers).status, 431);
}

TEST_F(HostileServer, RefusesQueriesThatMakeNoSense) {
  for (const char* path : {"sessions?limit=-1",
                           "sessions?limit=x",
                           "sessions?offset=99999999999999999999",
                           "training_runs?limit=-5",
                           "training_runs?offset=%00",
                           "checkpoints?offset=-1",
                           "checkpoints?limit=1e400",
                           "audit?day=yesterday",
                           "audit?event_type=nothing",
                           "billing/usage/events",
                           "billing/usage/events?starting_on=x&ending_before=y"}) {
    EXPECT_EQ(ask("GET", path).status / 100, 4) << path;
  }
}

}  // namespace
}  // namespace tinker::hostile_names_test
