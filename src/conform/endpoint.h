#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/http.h"
#include "tinker/result.h"
#include "tinker/secret.h"

namespace tinker::conform {

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kProto = "application/x-protobuf";

/// One request, exactly as it goes out.
struct Call {
  http::Method method = http::Method::post;
  std::string path = {};  ///< "/api/v1/healthz".
  std::string body = {};
  std::string_view content_type = kJson;
  std::string_view accept = kJson;
  http::Headers headers = {};  ///< More of them.
  std::chrono::seconds timeout{50};
};

/// What came back, with the question it answers.
struct Answer {
  std::string question = {};  ///< "POST /api/v1/optim_step {...}", shortened.
  int status = 0;
  std::string body = {};
  bool is_proto = false;
  std::chrono::duration<double> took = {};

  [[nodiscard]] bool ok() const noexcept { return status >= 200 && status < 300; }
  /// "POST /api/v1/optim_step {...} -> 422 {...}", shortened: the evidence of what happened.
  [[nodiscard]] std::string to_string() const;
};

/// The server, as bytes: nothing is retried, followed or decoded.
///
/// Thread-compatible.
class Endpoint {
 public:
  /// `interrupted` makes calls end with `cancelled` as soon as it is set.
  Endpoint(std::shared_ptr<http::Transport> transport,
           std::string base_url,
           Secret api_key,
           const std::atomic<bool>* interrupted);

  /// The answer, whatever its status; an error where there was none in time.
  Result<Answer> send(Call call);
  /// Sends all at once; the answers are in the order of the calls.
  std::vector<Result<Answer>> send_all(std::vector<Call> calls);

  /// Off while what is left behind is cleaned up: interruptions do not count then.
  void set_interruptible(bool value) noexcept { is_interruptible_ = value; }

 private:
  struct Pending;
  Pending start(Call call);
  Result<Answer> wait(Pending& pending);

  std::shared_ptr<http::Transport> transport_;
  std::string base_url_;
  Secret api_key_;
  const std::atomic<bool>* interrupted_;
  bool is_interruptible_ = true;
};

}  // namespace tinker::conform
