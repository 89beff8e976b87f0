#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"
#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"

// What the built-in losses read of a datum (SERVER 2). Clients and the engine check data here, so
// that they refuse the same data with the same words.
namespace tinker::detail {

/// How much is asked of a datum. Each level asks for all that the levels before it ask for.
enum class LossInputRules {
  /// Data that no server could use are refused. Policy inputs may be absent, and there may be
  /// inputs that this library does not know: servers differ there.
  any_server,
  documented,  ///< All inputs of the loss are there.
  engine,      ///< There are no other inputs, and nothing that our engine does not implement.
};

/// The inputs of a loss. Empty for losses that are not defined publicly.
std::span<const std::string_view> loss_input_names(LossFn loss);

/// Checks dtypes of the known inputs, shapes, sparse indices and spans: what any loss asks for.
Result<void> check_form(const Datum& datum);

/// Checks one datum, its form included. Of losses that are not defined publicly nothing
/// more than that is known. Lengths are compared where the length of the model input is known.
Result<void> check_loss_inputs(const Datum& datum, LossFn loss, LossInputRules rules);

/// The same for a batch, which must not be empty; the error names the datum.
Result<void> check_batch(std::span<const Datum> data, LossFn loss, LossInputRules rules);

/// What is said of a batch without data.
Error empty_batch_error();

/// The names as a text: "a, b", or "none".
std::string list_names(std::span<const std::string_view> names);

/// How many numbers a tensor has when all are written out. Requires that it is valid.
std::size_t cells_of(const TensorData& tensor);

}  // namespace tinker::detail
