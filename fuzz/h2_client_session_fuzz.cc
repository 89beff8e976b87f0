#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/check.h"
#include "transport/h2_client_session.h"

namespace {

using namespace tinker::http;

constexpr unsigned kStart = 1;
constexpr unsigned kStartUpload = 2;
constexpr unsigned kCancel = 4;
constexpr unsigned kSend = 8;

class Driver {
 public:
  void step(unsigned action, std::string_view bytes) {
    if ((action & kStart) != 0) start(0);
    if ((action & kStartUpload) != 0) start(100'000);
    if ((action & kCancel) != 0 && !active_.empty()) {
      session_.cancel(*active_.front());
      active_.erase(active_.begin());
    }
    if ((action & kSend) != 0) {
      for (auto out = session_.output({}); !out.empty(); out = session_.output({})) {
        session_.wrote(out.size(), {});
      }
      collect();
    }
    session_.receive(bytes, {});
    collect();
  }
  void end() {
    session_.end(std::nullopt);
    collect();
    TINKER_CHECK(active_.empty());
  }

 private:
  void start(std::size_t body) {
    if (session_.capacity() == 0) return;
    auto exchange = std::make_shared<Exchange>();
    exchange->url.host = "host";
    exchange->request.max_response_bytes = std::size_t{1} << 20U;
    exchange->request.body = std::make_shared<const std::string>(body, 'b');
    active_.push_back(exchange);
    session_.start(std::move(exchange), {});
  }
  void collect() {
    for (const auto& finished : session_.take_finished()) {
      // Each ends once.
      TINKER_CHECK(std::erase(active_, finished.exchange) == 1);
      TINKER_CHECK(finished.error || finished.exchange->response.status >= 200);
    }
    TINKER_CHECK(session_.in_flight() == active_.size());
  }

  H2ClientSession session_{H2ClientSession::Options{.max_streams = 10}};
  std::vector<std::shared_ptr<Exchange>> active_;
};

}  // namespace

// A script of steps (what to do, how many bytes the server sends, those bytes): whatever the server
// does, every exchange ends once.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Driver driver;
  std::string_view script(reinterpret_cast<const char*>(data), size);
  while (script.size() >= 2) {
    const auto action = static_cast<unsigned char>(script[0]);
    const std::size_t length = static_cast<unsigned char>(script[1]);
    script.remove_prefix(2);
    driver.step(action, script.substr(0, length));
    script.remove_prefix(std::min(length, script.size()));
  }
  driver.end();
  return 0;
}
