#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tinker/types/model_input.h"
#include "tinker/types/open_enum.h"
#include "tinker/types/sampling_params.h"
#include "tinker/types/tensor_data.h"

namespace tinker {

/// What a sample brings beside its sequences. All of them are read off one pass over the prompt.
struct SampleOptions {
  std::int64_t num_samples = 1;
  bool include_prompt_logprobs = false;
  std::int64_t topk_prompt_logprobs = 0;  ///< k most likely tokens at each prompt position.
  std::int64_t topk_sample_logprobs = 0;  ///< k most likely tokens at each sampled position.
  /// Token ids to score: int64 [prompt length - 1, K]; -1 asks for nothing. Default: none.
  std::optional<TensorData> target_prompt_logprobs = {};
  std::int64_t prompt_alt_tokens_k = 0;  ///< k independent draws at each prompt position.
  /// Only the last n prompt logprobs; at least 1, needs `include_prompt_logprobs`. Default: all.
  std::optional<std::int64_t> prompt_logprobs_last_n = {};
};

/// POST asample (PROTOCOL 9.18).
struct SampleRequest {
  std::int64_t num_samples = 1;
  ModelInput prompt = {};
  SamplingParams sampling_params = {};
  std::optional<std::string> base_model = {};
  std::optional<std::string> model_path = {};
  std::optional<std::string> sampling_session_id = {};
  std::optional<std::int64_t> seq_id = {};  ///< Needed with `sampling_session_id`.
  std::optional<bool> prompt_logprobs = {};
  std::int64_t topk_prompt_logprobs = 0;  ///< k most likely tokens at each prompt position.
  std::int64_t topk_sample_logprobs = 0;  ///< k most likely tokens at each sampled position.
  /// Token ids to score: int64 [prompt length - 1, K], row i at prompt position i + 1; -1 asks for
  /// nothing.
  std::optional<TensorData> target_prompt_logprobs = {};
  /// k independent draws at each prompt position but the first.
  std::int64_t prompt_alt_tokens_k = 0;
  /// Score only the last n prompt tokens.
  std::optional<std::int64_t> prompt_logprobs_last_n = {};
  std::optional<bool> record_stability_info = {};

  friend bool operator==(const SampleRequest&, const SampleRequest&) = default;
};

enum class StopReason { stop, length };
template <>
inline constexpr std::array<std::string_view, 2> detail::kEnumNames<StopReason> = {"stop",
                                                                                   "length"};

/// The k most likely tokens at each of `length` positions, most likely first: two row-major
/// length × k matrices.
struct TopkLogprobs {
  /// Cells that hold nothing carry token 0 and this logprob.
  static constexpr float kMaskLogprob = -99999.0F;
  using Cell = std::pair<std::int32_t, float>;

  std::vector<std::int32_t> token_ids = {};
  std::vector<float> logprobs = {};
  std::uint32_t k = 0;
  std::uint32_t length = 0;

  /// The cells that hold something, or nothing when the position was not computed (PROTOBUF 4).
  /// Requires `position < length`.
  [[nodiscard]] std::optional<std::vector<Cell>> at(std::size_t position) const;

  friend bool operator==(const TopkLogprobs&, const TopkLogprobs&) = default;
};

struct SampledSequence {
  OpenEnum<StopReason> stop_reason = StopReason::stop;  ///< Unknown ones are the number as text.
  std::vector<std::int32_t> tokens = {};
  std::vector<float> logprobs = {};  ///< One per token; empty when not computed.
  std::optional<TopkLogprobs> topk_logprobs = {};
  /// Names this sequence in later requests. Comes with the submission's answer, not with the
  /// result.
  std::string sequence_id = {};

  friend bool operator==(const SampledSequence&, const SampledSequence&) = default;
};

/// Draws at every prompt position but the first: two [prompt length - 1, k] tensors.
struct PromptAltTokens {
  TensorData tokens = {};
  TensorData logprobs = {};

  friend bool operator==(const PromptAltTokens&, const PromptAltTokens&) = default;
};

/// Result of a sample request (PROTOBUF 4).
struct SampleResponse {
  std::vector<SampledSequence> sequences = {};
  std::vector<float> prompt_logprobs = {};  ///< NaN where not computed; empty when not asked for.
  std::optional<TopkLogprobs> topk_prompt_logprobs = {};
  std::int32_t prompt_cache_hit_tokens = 0;
  std::optional<TensorData> target_prompt_logprobs = {};
  std::optional<PromptAltTokens> prompt_alt_tokens = {};

  /// The logprob of that prompt token, or nothing where it was not computed.
  [[nodiscard]] std::optional<float> prompt_logprob(std::size_t position) const;
};

}  // namespace tinker
