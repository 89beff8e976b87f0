#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"
#include "tinker/types/model_input.h"
#include "tinker/types/tensor_data.h"

namespace tinker {

enum class LossFn;
struct SampledSequence;

/// Tensors of a loss by name: inputs ("target_tokens", "weights", ...) or outputs ("logprobs").
using NamedTensors = std::map<std::string, TensorData, std::less<>>;

/// A claim that a run of positions repeats part of a sampled sequence or of the prompt it was
/// sampled from (PROTOBUF 3.4). Where the run starts follows from the spans before it.
struct ProvenanceSpan {
  enum class Source { prompt_tokens, sampled_tokens };

  Source source = Source::sampled_tokens;
  std::string sequence_id = {};  ///< `SampledSequence::sequence_id`; not empty.
  std::int64_t offset = 0;       ///< First position within the source.
  std::int64_t length = 0;

  friend bool operator==(const ProvenanceSpan&, const ProvenanceSpan&) = default;
};

/// One training example: what the model reads, and what its loss is computed from.
///
///     Datum datum = {
///         .model_input = ModelInput::from_tokens({10, 11}),
///         .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{11, 12}},
///                            {"weights", std::vector<float>{0.0F, 1.0F}}},
///     };
///
/// Thread-compatible.
struct Datum {
  ModelInput model_input = {};
  NamedTensors loss_fn_inputs = {};
  /// Where the input tokens came from: consecutive runs that tile `model_input`. Empty for none.
  std::vector<ProvenanceSpan> model_input_spans = {};
  /// Likewise for "target_tokens". Both lists or neither.
  std::vector<ProvenanceSpan> loss_fn_input_spans = {};

  /// Tokens that are predicted one from another, as `LossFn::cross_entropy` wants them: position i
  /// has token i as input and token i + 1 as target. The weight is 0 where the target is one of the
  /// first `prompt_length` tokens, and 1 after them. Fewer than two tokens make an empty datum.
  static Datum next_token(std::vector<std::int32_t> tokens, std::size_t prompt_length = 0);
  /// A prompt and a sequence that was sampled from it, as the policy losses want them: logprobs of
  /// the sequence, and the advantage at each of its tokens; both are 0 where the target is a token
  /// of the prompt. Fails with `invalid_argument` unless the prompt is text of at least one token,
  /// and the sequence has a logprob for each token.
  static Result<Datum> episode(const ModelInput& prompt,
                               const SampledSequence& sequence,
                               float advantage);

  /// Checks what a built-in loss asks for: its inputs are there, as long as `model_input`, of the
  /// right dtype and finite; targets are token ids; no name is a misspelt one; shapes, sparse
  /// indices and spans fit. The error names the input. The engine checks data by the same rules.
  /// Of `LossFn::custom` only the form is checked, because its inputs are the user's own.
  [[nodiscard]] Result<void> validate(LossFn loss) const;
  /// The same for the loss that the names of the inputs point to. An absent "logprobs" or
  /// "advantages" is not noticed: then the datum may be meant for another loss.
  [[nodiscard]] Result<void> validate() const;

  friend bool operator==(const Datum&, const Datum&) = default;
};

/// `Datum::validate()` for a batch; the error names the datum too:
/// "data[3]: loss_fn_inputs.weights: ...".
Result<void> validate(std::span<const Datum> data);
/// `Datum::validate(LossFn)` for a batch, which must not be empty.
Result<void> validate(std::span<const Datum> data, LossFn loss);

/// The element type the built-in losses expect of an input, or nothing when the name is not theirs.
std::optional<TensorDtype> loss_input_dtype(std::string_view name);

/// Numbers as the named input wants them: integers for "target_tokens", floats for the others
/// (PROTOBUF 3.2). An error when the name is unknown: give a `TensorData` then.
Result<TensorData> make_loss_input(std::string_view name, std::span<const double> values);
/// The same for rows of equal length; ragged rows are an error that names the row.
Result<TensorData> make_loss_input(std::string_view name,
                                   const std::vector<std::vector<double>>& rows);

}  // namespace tinker
