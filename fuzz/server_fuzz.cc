// A whole server, driven by sequences of requests. An input is lines "INDEX BODY": INDEX is a row
// of the table of endpoints; '@' in BODY stands for the id of a session and '#' for a model's.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "server/endpoints.h"
#include "support/raw_http.h"
#include "tinker/check.h"
#include "tinker/local_server.h"

namespace {

using tinker::testing::RawHttp;

constexpr std::size_t kMaxRequests = 16;
constexpr const char* kKeyless = "Connection: keep-alive\r\n";

tinker::LocalServer& server() {
  static tinker::LocalServer instance =
      tinker::LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
                                  .threads = 1,
                                  .memory_bytes = std::size_t{1} << 30U,
                                  .precision = tinker::EnginePrecision::f32})
          .value();
  return instance;
}

/// The value of a member that is a text.
std::string member(const std::string& json, const std::string& name) {
  const auto at = json.find("\"" + name + "\":\"");
  if (at == std::string::npos) return {};
  const auto begin = at + name.size() + 4;
  return json.substr(begin, json.find('"', begin) - begin);
}

struct Ids {
  std::string session = {};
  std::string model = {};
};

/// A session and a model of its own for each input.
Ids begin(RawHttp& client) {
  Ids ids;
  const auto opened = client.ask(
      "POST", "/api/v1/create_session", R"({"tags":[],"sdk_version":"0.36.0"})", kKeyless);
  ids.session = member(opened.body, "session_id");
  const auto made =
      client.ask("POST",
                 "/api/v1/create_model",
                 R"({"session_id":")" + ids.session +
                     R"(","model_seq_id":1,"base_model":"tiny","lora_config":{"rank":1}})",
                 kKeyless);
  ids.model = member(made.body, "model_id");
  TINKER_CHECK(!ids.session.empty() && !ids.model.empty());
  return ids;
}

std::string filled(std::string_view text, const Ids& ids) {
  std::string out;
  for (const char c : text) {
    if (c == '@') {
      out += ids.session;
    } else if (c == '#') {
      out += ids.model;
    } else {
      out += c;
    }
  }
  return out;
}

/// The path of a row; what stands for its names is the session's id.
std::string path_of(std::string_view pattern, const Ids& ids) {
  std::string out = "/api/v1/";
  while (!pattern.empty()) {
    const auto open = pattern.find('{');
    out.append(pattern.substr(0, open));
    if (open == std::string_view::npos) break;
    out.append(pattern.substr(open).starts_with("{run}") ? ids.model : ids.session);
    pattern.remove_prefix(pattern.find('}') + 1);
  }
  return out;
}

}  // namespace

// Whatever clients ask, in whatever order, is answered, and never with a fault of the server's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto endpoints = tinker::server::endpoint_names();
  std::string_view input(reinterpret_cast<const char*>(data), size);
  RawHttp client(server().port());
  const Ids ids = begin(client);
  for (std::size_t i = 0; i < kMaxRequests && !input.empty(); ++i) {
    const auto line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
    const auto space = std::min(line.find(' '), line.size());
    const auto row = std::strtoul(std::string(line.substr(0, space)).c_str(), nullptr, 10);
    const auto& endpoint = endpoints[row % endpoints.size()];
    const std::string body = filled(line.substr(std::min(line.size(), space + 1)), ids);
    const std::string request = RawHttp::request(
        tinker::http::to_string(endpoint.method), path_of(endpoint.path, ids), body, kKeyless);
    if (endpoint.path.starts_with("retrieve_future")) {
      RawHttp(server().port()).send(request);  // may be held: the client goes away
      continue;
    }
    client.send(request);
    const auto answer = client.receive();
    TINKER_CHECK(answer.status >= 200 && answer.status < 500);
  }
  const std::string end = R"({"reason":{"type":"success"},"detail":null})";
  const auto finished =
      client.ask("POST", "/api/v1/sessions/" + ids.session + "/finish", end, kKeyless);
  TINKER_CHECK(finished.status == 200);
  return 0;
}
