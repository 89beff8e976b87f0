#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tinker/call_options.h"
#include "tinker/circuit_breaker.h"
#include "tinker/future.h"
#include "tinker/http.h"
#include "tinker/hub.h"
#include "tinker/retry_config.h"
#include "tinker/runtime.h"
#include "tinker/secret.h"
#include "tinker/transport.h"
#include "tinker/types/sample.h"
#include "tinker/types/sampling_params.h"

namespace tinker {

class Renderer;
struct ChatReply;
struct Message;
namespace client {
struct SamplingState;
}

/// How a sampling client works.
struct SamplingClientOptions {
  RetryConfig retry = {};
  /// Keep what training with `stable_reinforce` needs to know of each sequence. Default: no.
  bool record_stability_info = false;
};

/// How to use a sampler that another process made.
struct SamplerHandleOptions {
  std::optional<Secret> api_key = {};  ///< Default: as `ServiceOptions::api_key`.
  SamplingClientOptions client = {};
  http::Headers headers = {};  ///< Sent with every request; never logged.
  http::TransportOptions transport_options = {};
  std::shared_ptr<http::Transport> transport = {};  ///< Default: the library's own.
  std::optional<Runtime> runtime = {};              ///< Default: one of its own.
  /// As `ServiceOptions::circuit_breaker`.
  std::optional<CircuitBreakerOptions> circuit_breaker = {};
};

/// Draws tokens from one set of weights.
///
///     auto answer = sampler.sample(prompt, {.max_tokens = 64, .temperature = 0.7}).get().value();
///     for (const SampledSequence& sequence : answer.sequences) use(sequence.tokens);
///
/// Calls are not ordered among themselves: thousands can be under way. Failures that may pass are
/// repeated as `RetryConfig` says. Copies are the same client.
///
/// Thread-safe.
class SamplingClient {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  /// A client for a sampler of another process, from the text that its `get_sampler_handle` gave.
  /// Sends nothing until first use.
  static Future<SamplingClient> from_sampler_handle(std::string handle);
  static Future<SamplingClient> from_sampler_handle(std::string handle,
                                                    SamplerHandleOptions options);

  /// This client with other options for its calls, e.g. a deadline.
  [[nodiscard]] SamplingClient with(CallOptions options) const;

  Future<SampleResponse> sample(ModelInput prompt, SamplingParams params) const;
  Future<SampleResponse> sample(ModelInput prompt,
                                SamplingParams params,
                                SampleOptions options) const;
  /// The answer to a conversation: see tinker/chat_client.h, which has the types.
  Future<ChatReply> chat(Renderer renderer,
                         std::vector<Message> messages,
                         SamplingParams params) const;
  /// The logprob of each prompt token; none for the first, nor where it was not computed.
  Future<std::vector<std::optional<float>>> compute_logprobs(ModelInput prompt) const;
  /// The same for the last `last_n` tokens only; the others are none.
  Future<std::vector<std::optional<float>>> compute_logprobs(ModelInput prompt,
                                                             std::int64_t last_n) const;

  Future<std::string> get_base_model() const;
  /// The tokenizer of the base model, looked up by its name: from the hub that the environment
  /// names or from `hub`. Samplers know no more of it than this name.
  Future<Tokenizer> get_tokenizer() const;
  Future<Tokenizer> get_tokenizer(Hub hub) const;
  /// A text with which another process can sample from the same weights. Carries no credential;
  /// whoever has it still needs one for the account.
  Future<std::string> get_sampler_handle() const;
  [[nodiscard]] const std::string& sampling_session_id() const noexcept;
  // NOLINTEND(modernize-use-nodiscard)

  /// For the library itself.
  explicit SamplingClient(std::shared_ptr<const client::SamplingState> state)
      : state_(std::move(state)) {}

 private:
  std::shared_ptr<const client::SamplingState> state_;
  CallOptions options_ = {};
};

}  // namespace tinker
