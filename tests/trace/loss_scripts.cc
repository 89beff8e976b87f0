#include <algorithm>
#include <numeric>
#include <span>

#include "scripts.h"

namespace tinker::trace {
namespace {

loss::Formula half_square() {
  return loss::Formula::define(
             "half_square",
             {{.name = "logprobs", .rank = 1}, {.name = "weights", .rank = 1}},
             [](const loss::Inputs& in) {
               const auto logprobs = in["logprobs"];
               const auto value = sum(logprobs * logprobs * 0.5 * in["weights"]);
               return loss::Output(
                   value, {{"custom/half_square:sum", value}, {"custom/first:mean", logprobs[0]}});
             })
      .value();
}

Result<loss::BatchResult> negative_sum(std::span<const Datum> /*data*/,
                                       loss::BatchLogprobs logprobs) {
  loss::BatchResult out = {.metrics = {{"mine", 1.0}}};
  for (const auto& row : logprobs) {
    out.loss -= 0.5 * std::accumulate(row.begin(), row.end(), 0.0);
    out.gradients.emplace_back(row.size(), -0.5F);
  }
  return out;
}

Result<loss::BatchResult> squares(std::span<const Datum> /*data*/, loss::BatchLogprobs logprobs) {
  loss::BatchResult out;
  for (const auto& row : logprobs) {
    for (const float logprob : row) out.loss += 0.5 * logprob * logprob;
    out.gradients.emplace_back(row.begin(), row.end());
  }
  return out;
}

void loss_of_a_function() {
  const auto service = connect();
  const auto training = trainer(service);
  const Datum without_weights = {.model_input = text({70, 71}),
                                 .loss_fn_inputs = {{"target_tokens", ints({71, 72})}}};
  const Datum extra = {
      .model_input = text({70, 71}),
      .loss_fn_inputs = {{"target_tokens",
                          TensorData(Buffer(std::vector<std::int64_t>{71, 72, 72, 73}),
                                     TensorData::Shape{2, 2})},
                         {"mine", floats({1.0F, 2.0F})}},
  };
  training.forward_backward_custom({datum(65), without_weights, extra}, negative_sum).get().value();
  training.optim_step(AdamParams()).get().value();
  finish(service);
}

void loss_of_two_chunks() {
  const auto service = connect();
  const auto training = trainer(service);
  training.forward_backward_custom(data(2), squares).get().value();
  training.optim_step(AdamParams()).get().value();
  finish(service);
}

void use_handle() {
  const auto service = connect();
  const auto training = trainer(service);
  const auto handle = service.create_custom_loss(half_square()).get().value();
  training.forward_backward_custom(data(1), handle).get().value();
  training.optim_step(AdamParams()).get().value();
  finish(service);
}

}  // namespace

std::vector<Script> loss_scripts() {
  return {
      {"loss_of_a_function", loss_of_a_function},
      {"loss_of_two_chunks", loss_of_two_chunks},
      {"loss_handle_client_side", use_handle},
      {"loss_handle_server_side", use_handle},
      {"loss_upload_retries", use_handle},
  };
}

}  // namespace tinker::trace
