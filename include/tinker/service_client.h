#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tinker/call_options.h"
#include "tinker/circuit_breaker.h"
#include "tinker/future.h"
#include "tinker/http.h"
#include "tinker/rest_client.h"
#include "tinker/runtime.h"
#include "tinker/sampling_client.h"
#include "tinker/secret.h"
#include "tinker/training_client.h"
#include "tinker/transport.h"
#include "tinker/types/client_config.h"
#include "tinker/types/metadata.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/session.h"

namespace tinker {

namespace client {
struct ServiceState;
}

/// Which server, as whom, and how.
struct ServiceOptions {
  /// "http://127.0.0.1:8000"; "http+unix://%2Frun%2Ftinker.sock" for a server at a Unix socket.
  /// Default: `TINKER_BASE_URL`, then the hosted service.
  std::string base_url = {};
  /// Default: `TINKER_API_KEY`, `TINKER_CREDENTIAL_CMD`, then the credential file.
  std::optional<Secret> api_key = {};
  /// Kept with the session.
  StringMap user_metadata = {};
  /// Default: `TINKER_PROJECT_ID`.
  std::optional<std::string> project_id = {};
  std::optional<std::string> display_name = {};
  /// Sent with every request; never logged.
  http::Headers headers = {};
  http::TransportOptions transport_options = {};
  /// Default: the library's own, made with `transport_options`.
  std::shared_ptr<http::Transport> transport = {};
  /// Default: one of its own.
  std::optional<Runtime> runtime = {};
  /// Stops calls of an endpoint that keeps failing, one breaker each; docs/resilience.md says how
  /// that goes with retries. Default: none.
  std::optional<CircuitBreakerOptions> circuit_breaker = {};
  /// How long the first contact may take: the session's start fails when the server has answered
  /// nothing at all for this long, because it is unreachable or silent. Once it has answered
  /// anything, the usual retries apply. Nothing: the usual retries from the beginning.
  std::optional<std::chrono::nanoseconds> start_timeout = std::chrono::seconds(15);
};

/// What a new LoRA model trains.
struct LoraTrainingOptions {
  std::int64_t rank = 32;
  std::optional<Seed> seed = {};  ///< Of the initial weights. Default: the server chooses.
  bool train_mlp = true;
  bool train_attn = true;
  bool train_unembed = true;
  std::optional<StringMap> user_metadata = {};
  OptimizerConfig optimizer = AdamOptimizerConfig();
};

/// How to go on from a checkpoint.
struct FromStateOptions {
  /// Another base model of the same shape. Default: the checkpoint's.
  std::optional<std::string> base_model = {};
  std::optional<StringMap> user_metadata = {};
  /// A credential of the account that owns the checkpoint. Default: that of the client.
  std::optional<Secret> weights_access_token = {};
  /// Default: AdamW. With the optimizer's state it is always the checkpoint's.
  std::optional<OptimizerConfig> optimizer = {};
};

/// What to sample from: at least one of the two.
struct SamplingSource {
  std::optional<std::string> model_path = {};  ///< A checkpoint, "tinker://…".
  std::optional<std::string> base_model = {};
};

/// The way in: a session with one server, and the clients that work in it.
///
///     auto service = ServiceClient::connect({.base_url = "http://localhost:8000"}).value();
///     auto trainer = service.create_lora_training_client("Qwen/Qwen3-8B").get().value();
///
/// Connecting sends nothing; the session begins with the first client made. It lasts until
/// `close`, or until the last handle goes: the service client and all that it made. What is in
/// flight then ends with `ErrorCode::cancelled`, without waiting for the network, and the server
/// learns of it by missing heartbeats. Copies are the same client.
///
/// Thread-safe.
class ServiceClient {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  static Result<ServiceClient> connect();
  static Result<ServiceClient> connect(ServiceOptions options);

  /// This client with other options for its calls, e.g. a deadline.
  [[nodiscard]] ServiceClient with(CallOptions options) const;
  /// One like this, same server, credential and options, with a session of its own: for when the
  /// server has ended the other.
  [[nodiscard]] ServiceClient with_new_session() const;

  Future<GetServerCapabilitiesResponse> get_server_capabilities() const;

  Future<TrainingClient> create_lora_training_client(std::string base_model) const;
  Future<TrainingClient> create_lora_training_client(std::string base_model,
                                                     LoraTrainingOptions options) const;
  /// A new model with the weights of a checkpoint; its optimizer starts anew.
  Future<TrainingClient> create_training_client_from_state(std::string path) const;
  Future<TrainingClient> create_training_client_from_state(std::string path,
                                                           FromStateOptions options) const;
  /// A new model that goes on where the checkpoint was made.
  Future<TrainingClient> create_training_client_from_state_with_optimizer(std::string path) const;
  Future<TrainingClient> create_training_client_from_state_with_optimizer(
      std::string path, FromStateOptions options) const;

  Future<SamplingClient> create_sampling_client(SamplingSource source) const;
  Future<SamplingClient> create_sampling_client(SamplingSource source,
                                                SamplingClientOptions options) const;

  /// Makes a loss known to the session: uploaded where the server runs custom losses, otherwise
  /// kept. The same formula again gives the same loss.
  Future<LossHandle> create_custom_loss(loss::Formula formula) const;

  /// Copies a checkpoint into a project, by default this client's own; the path of the copy.
  Future<std::string> copy_weights(std::string path) const;
  Future<std::string> copy_weights(std::string path, CopyOptions options) const;
  /// Who the credential belongs to, see `RestClient::whoami`.
  Future<WhoamiResponse> whoami() const;
  /// A client for what is on the server, as this client's user. Makes no session.
  [[nodiscard]] RestClient create_rest_client() const;

  /// Tells the server that the session is over and why, then ends everything: later calls fail
  /// with `ErrorCode::closed`. Takes a minute at most, whatever the server does. A second call does
  /// nothing.
  Future<void> close(SessionFinishReason status) const;
  Future<void> close(SessionFinishReason status, std::string detail) const;
  /// Calls `f(*this)`, then closes: with `success`, or with `errored` when `f` throws or returns a
  /// failed `Result`. What `f` gives or throws comes out; an error of the close is only logged.
  template <typename F>
  auto use(F f) const -> std::invoke_result_t<F, const ServiceClient&>;

  /// The circuit breakers of all endpoints that were called so far, by name; none without
  /// `ServiceOptions::circuit_breaker`.
  [[nodiscard]] std::vector<CircuitBreakerStatus> circuit_breakers() const;
  /// Closes all of them, or that of one endpoint. Calls that wait for one look again when their
  /// time comes.
  void reset_circuit_breakers() const;
  void reset_circuit_breakers(std::string_view endpoint) const;

  /// Where the console shows the session; without one, all of them.
  [[nodiscard]] std::string get_console_url() const;
  // NOLINTEND(modernize-use-nodiscard)

  /// For the library itself.
  explicit ServiceClient(std::shared_ptr<const client::ServiceState> state)
      : state_(std::move(state)) {}
  [[nodiscard]] const Runtime& runtime() const noexcept;

 private:
  void close_after(bool is_success) const;

  std::shared_ptr<const client::ServiceState> state_;
  CallOptions options_ = {};
};

template <typename F>
auto ServiceClient::use(F f) const -> std::invoke_result_t<F, const ServiceClient&> {
  using Out = std::invoke_result_t<F, const ServiceClient&>;
  try {
    if constexpr (std::is_void_v<Out>) {
      f(*this);
      close_after(true);
    } else {
      Out out = f(*this);
      if constexpr (requires { out.ok(); }) {
        close_after(out.ok());
      } else {
        close_after(true);
      }
      return out;
    }
  } catch (...) {
    close_after(false);
    throw;
  }
}

}  // namespace tinker
