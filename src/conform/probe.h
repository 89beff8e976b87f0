#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conform/endpoint.h"
#include "conform/law.h"
#include "tinker/types/client_config.h"
#include "tinker/types/promise.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::conform {

struct ProbeOptions {
  std::shared_ptr<http::Transport> transport = {};
  std::string base_url = {};
  Secret api_key = {};
  std::string model = {};   ///< Empty: the first that the server can train.
  double tolerance = 0.02;  ///< How far apart two logprobs of the same token may be, in nats.
  const std::atomic<bool>* interrupted = nullptr;
};

/// What was asked of the server.
struct Spent {
  std::int64_t trained_tokens = 0;
  std::int64_t sampled_tokens = 0;  ///< Prompts and what was drawn.
};

/// One session on the server that is looked at, and all that was made in it.
///
/// Thread-compatible; calls block.
class Probe {
 public:
  /// Asks for configuration and models, and opens a session.
  static Result<std::unique_ptr<Probe>> open(ProbeOptions options);
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe() = default;

  [[nodiscard]] Endpoint& endpoint() noexcept { return endpoint_; }
  [[nodiscard]] const ClientConfigResponse& config() const noexcept { return config_; }
  [[nodiscard]] const ClientDynamicConfigResponse& dynamic_config() const noexcept {
    return dynamic_config_;
  }
  [[nodiscard]] const std::string& session_id() const noexcept { return session_id_; }
  [[nodiscard]] const std::string& base_model() const noexcept { return options_.model; }
  [[nodiscard]] double tolerance() const noexcept { return options_.tolerance; }
  [[nodiscard]] Spent& spent() noexcept { return spent_; }

  std::int64_t next_model() noexcept { return next_model_++; }
  std::int64_t next_sampler() noexcept { return next_sampler_++; }

  // ---- requests: the answer, whatever its status
  Result<Answer> send(Call call);
  Result<Answer> get(std::string path);
  Result<Answer> post(std::string path, std::string json);
  template <typename T>
  Result<Answer> post(std::string path, const T& request) {
    TINKER_TRY(auto body, wire::encode_json(request));
    return post(std::move(path), std::move(body));
  }

  // ---- operations
  /// The handle of an operation that was accepted.
  Result<UntypedApiFuture> accepted(const Result<Answer>& submission);
  template <typename T>
  Result<UntypedApiFuture> submit(std::string path, const T& request) {
    return accepted(post(std::move(path), request));
  }
  /// Polls until there is an answer that is final: the result, or how the operation failed.
  Result<Answer> settle(const std::string& request_id, std::string_view accept = kJson);
  /// The result of an operation that must succeed.
  template <typename T>
  Result<T> json_result(const std::string& request_id) {
    TINKER_TRY(const auto answer, settle_well(request_id, kJson));
    return decoded(answer, wire::decode_json<T>(answer.body));
  }
  template <typename T>
  Result<T> proto_result(const std::string& request_id) {
    TINKER_TRY(auto answer, settle_well(request_id, kProto));
    auto body = std::exchange(answer.body, {});
    return decoded(answer, wire::decode_proto<T>(std::move(body)));
  }
  /// The answer to a question that is answered at once.
  template <typename T>
  Result<T> read(const Result<Answer>& answer) {
    TINKER_TRY(expect_ok(answer));
    return decoded(*answer, wire::decode_json<T>(answer->body));
  }

  // ---- what is left behind is deleted when a law ends
  void remember_model(std::string model_id) { models_.push_back(std::move(model_id)); }
  void remember_checkpoint(std::string tinker_path) {
    checkpoints_.push_back(std::move(tinker_path));
  }
  /// Unloads the models and deletes the checkpoints of a law; what would not go.
  std::vector<std::string> clean_up();
  /// Cleans up and finishes the session, interrupted or not; what would not go.
  std::vector<std::string> close(std::string_view reason);

  /// Numbers that several laws need and one of them found.
  std::map<std::string, std::vector<double>, std::less<>>& notes() noexcept { return notes_; }

 private:
  explicit Probe(ProbeOptions options);
  Result<void> choose_model();
  Result<void> keep_alive();
  static Result<void> expect_ok(const Result<Answer>& answer);
  Result<Answer> settle_well(const std::string& request_id, std::string_view accept);
  template <typename T>
  static Result<T> decoded(const Answer& answer, Result<T> value) {
    if (value) return value;
    return broken(
        base::concat(answer.to_string(), ", which cannot be read: ", value.error().message));
  }

  ProbeOptions options_;
  Endpoint endpoint_;
  ClientConfigResponse config_ = {};
  ClientDynamicConfigResponse dynamic_config_ = {};
  std::string session_id_ = {};
  std::int64_t next_model_ = 0;
  std::int64_t next_sampler_ = 0;
  std::chrono::steady_clock::time_point last_beat_ = {};
  Spent spent_ = {};
  std::vector<std::string> models_ = {};
  std::vector<std::string> checkpoints_ = {};
  std::map<std::string, std::vector<double>, std::less<>> notes_ = {};
};

/// Whether a request was refused as PROTOCOL asks: with 4xx, at once, and not with a status that
/// clients repeat (408, 409, 429), nor with an empty body.
Evidence refused(const Result<Answer>& answer);
/// Whether an accepted operation failed by its future, as the user's fault.
Evidence failed_as_users(Probe& probe, const Result<Answer>& submission);
/// Either of the two.
Evidence refused_or_failed(Probe& probe, const Result<Answer>& submission);

}  // namespace tinker::conform
