// A whole server, driven by scripts: an input is a script, a request a line (server_script.h).
// Every request is answered, and never with a fault of the server's; every operation that was
// accepted ends, and not by a fault of the server's either; it starts again whatever its clients
// have left.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/content_coding.h"
#include "server/endpoints.h"
#include "server/scratch_folder.h"
#include "server_script.h"
#include "support/raw_http.h"
#include "tinker/check.h"
#include "tinker/local_server.h"

namespace tinker::fuzz {
namespace {

using testing::RawHttp;
using testing::RawResponse;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxRequests = 16;
constexpr int kInputsPerLife = 100;    // of the server, which is then started again
constexpr int kInputsPerFolder = 400;  // of the server, which then begins with nothing
constexpr int kPolls = 40;             // of a script for one result
constexpr auto kLongWork = std::chrono::seconds(1);  // beyond it, the session is ended
constexpr auto kPatience = std::chrono::seconds(8);  // less than libFuzzer's limit
constexpr std::string_view kPrefix = "/api/v1/";
constexpr std::string_view kJson = "Content-Type: application/json\r\n";
constexpr std::string_view kProtobuf = "Content-Type: application/x-protobuf\r\n";
constexpr std::string_view kZstd = "Content-Encoding: zstd\r\n";

/// A durable server, which is started again now and then with what its clients have left.
class Server {
 public:
  Server() : folder_(server::ScratchFolder::create("tinker-fuzz").value()) { start(); }

  std::uint16_t port_for_next_input() {
    if (++inputs_ % kInputsPerLife == 0) {
      server_.reset();
      if (inputs_ % kInputsPerFolder == 0) {
        folder_ = server::ScratchFolder::create("tinker-fuzz").value();
      }
      start();
    }
    return server_->port();
  }

 private:
  void start() {
    using namespace std::chrono_literals;
    LocalServerOptions options = {
        .models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
        .data_dir = folder_->path(),
        .threads = 1,
        .memory_bytes = std::size_t{1} << 30U,
        .precision = EnginePrecision::f32,
        .session_timeout = 30s,
        .logger = {},
        .durable = true,
        .limits = {.samples = 64, .chunk_time = 20ms, .poll_time = 5ms, .batch_poll_time = 5ms}};
    auto started = LocalServer::start(std::move(options));
    if (!started.ok()) std::cerr << "start: " << started.error().to_string() << "\n";
    server_ = std::make_unique<LocalServer>(std::move(started).value());
  }

  std::shared_ptr<const server::ScratchFolder> folder_;
  std::unique_ptr<LocalServer> server_ = {};
  int inputs_ = 0;
};

/// OpenSSL ends after it, for it was at work before this was noted for destruction.
Server& running_server() {
  static Server instance;
  return instance;
}

/// The value of a member that is a text.
std::string member(const std::string& json, const std::string& name) {
  const auto at = json.find("\"" + name + "\":\"");
  if (at == std::string::npos) return {};
  const auto begin = at + name.size() + 4;
  return json.substr(begin, json.find('"', begin) - begin);
}

/// As it may stand in the target of a request.
std::string escaped(std::string_view text, std::string_view allowed) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_plain || allowed.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return out;
}

/// A client with one script, and what the server has told it.
class Session {
 public:
  explicit Session(std::uint16_t port) : port_(port), client_(std::in_place, port) {
    const auto opened =
        ask("POST", "/api/v1/create_session", R"({"tags":[],"sdk_version":"0.36.0"})", kJson);
    ids_.session = member(opened.body, "session_id");
    const auto made = ask("POST",
                          "/api/v1/create_model",
                          R"({"session_id":")" + ids_.session +
                              R"(","model_seq_id":1,"base_model":"tiny","lora_config":{"rank":1}})",
                          kJson);
    ids_.model = member(made.body, "model_id");
    TINKER_CHECK(!ids_.session.empty() && !ids_.model.empty());
  }

  /// Lines that name no row are passed over.
  void run(std::string_view text) {
    static const auto endpoints = server::endpoint_names();
    const ScriptLine line = parse_line(text, ids_);
    for (const auto& endpoint : endpoints) {
      const auto method = http::to_string(endpoint.method);
      if (line.row != std::string(method) + " " + std::string(endpoint.path)) continue;
      return perform(method, endpoint.path, line);
    }
  }

  /// Every operation that was accepted has an answer, or its result is over.
  void expect_ends() {
    const auto begin = Clock::now();
    bool is_finished = false;
    for (const auto& id : accepted_) {
      while (is_pending(id)) {
        const auto waited = Clock::now() - begin;
        TINKER_CHECK(waited < kPatience);
        if (waited < kLongWork || is_finished) continue;
        finish();
        is_finished = true;
      }
    }
    finish();
  }

 private:
  /// Ends the program with what was wrong.
  static void expect(bool is_good,
                     std::string_view method,
                     std::string_view target,
                     const RawResponse& answer) {
    if (!is_good) {
      std::cerr << method << " " << target << " -> " << answer.status << " " << answer.body << "\n";
    }
    TINKER_CHECK(is_good);
  }

  RawResponse ask(std::string_view method,
                  std::string_view target,
                  std::string_view body,
                  std::string_view headers) {
    if (!client_->is_open()) client_.emplace(port_);
    auto answer = client_->ask(method, target, body, headers);
    expect(answer.status >= 200 && answer.status < 500, method, target, answer);
    // The server has closed the connection, or the body has an end that RawHttp does not know.
    if (answer.header("connection") == "close" || !answer.header("transfer-encoding").empty()) {
      client_.emplace(port_);
    }
    return answer;
  }

  void perform(std::string_view method, std::string_view pattern, const ScriptLine& line) {
    std::string target = target_of(pattern, line);
    std::string_view body = line.body;
    if (line.coding == 'c' && !downloads_.empty()) {
      body = downloads_[std::strtoul(line.body.c_str(), nullptr, 10) % downloads_.size()];
    }
    if (method == "GET") {
      if (!body.empty() && target.find('?') == std::string::npos) {
        target += "?" + escaped(body, "-._~:=&%/");
      }
      body = {};
    }
    std::string headers(line.coding == 'p' || line.coding == 'q' ? kProtobuf : kJson);
    if (line.coding == 'u') headers = "Content-Type: text/html\r\n";
    std::string packed;
    if (line.coding == 'z' || line.coding == 'q') {
      packed = http::zstd_compress(body, 1).value();
      body = packed;
    }
    if (body.data() == packed.data() || line.coding == 't') headers += kZstd;
    if (line.coding != 'j') headers += "Accept: application/x-protobuf\r\n";
    auto answer = ask(method, target, body, headers);
    for (int i = 0; i < kPolls && answer.status == 408; ++i) {
      answer = ask(method, target, body, headers);
    }
    note(pattern, answer);
  }

  /// What an answer is good for in requests to come.
  void note(std::string_view pattern, const RawResponse& answer) {
    if (answer.status == 200 && pattern.starts_with("download/")) downloads_.push_back(answer.body);
    if (answer.status == 200 && !pattern.starts_with("retrieve_future")) {
      if (const auto id = member(answer.body, "request_id"); !id.empty()) accepted_.insert(id);
      if (auto id = member(answer.body, "upload_id"); !id.empty()) ids_.upload = std::move(id);
    }
    for (const std::string& text : {answer.header("location"), answer.body}) {
      for (auto at = text.find("http://"); at != std::string::npos;
           at = text.find("http://", at + 1)) {
        const auto url = text.substr(at, text.find('"', at) - at);
        const auto path = url.find(kPrefix);
        if (path != std::string::npos) links_.push_back(url.substr(path));
      }
    }
  }

  /// A first value "~N" stands for a link that the server has signed.
  [[nodiscard]] std::string target_of(std::string_view pattern, const ScriptLine& line) const {
    if (!line.values.empty() && line.values.front().starts_with('~') && !links_.empty()) {
      const auto number = std::strtoul(line.values.front().c_str() + 1, nullptr, 10);
      return links_[number % links_.size()];
    }
    std::string out(pattern.starts_with('/') ? "" : kPrefix);
    for (const auto& value : line.values) {
      const auto open = pattern.find('{');
      out.append(pattern.substr(0, open)).append(escaped(value, "-._~:%"));
      pattern.remove_prefix(pattern.find('}') + 1);
    }
    return out.append(pattern);
  }

  bool is_pending(const std::string& id) {
    // The id travels as it came, so that it needs no escapes.
    const auto answer = ask("POST",
                            "/api/v1/retrieve_future",
                            R"({"request_id":")" + id + R"(","allow_metadata_only":false})",
                            kJson);
    const bool is_server_fault = answer.body.find(R"("category":"server")") != std::string::npos;
    expect((answer.status == 200 || answer.status == 408 || answer.status == 410) &&
               (!is_server_fault || answer.body.find("cancel") != std::string::npos),
           "result of",
           id,
           answer);
    return answer.status == 408;
  }
  void finish() {
    (void)ask("POST",
              "/api/v1/sessions/" + ids_.session + "/finish",
              R"({"reason":{"type":"success"},"detail":null})",
              kJson);
  }

  std::uint16_t port_;
  std::optional<RawHttp> client_;
  ScriptIds ids_;
  std::set<std::string> accepted_;      // ids of operations
  std::vector<std::string> links_;      // path and query of each
  std::vector<std::string> downloads_;  // what was behind links
};

}  // namespace
}  // namespace tinker::fuzz

// NOLINTNEXTLINE(readability-identifier-naming): the name that the fuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::fuzz;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  Session session(running_server().port_for_next_input());
  for (std::size_t i = 0; i < kMaxRequests && !input.empty(); ++i) session.run(take(input, '\n'));
  session.expect_ends();
  return 0;
}
