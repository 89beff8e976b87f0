#include "client/custom_loss.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/logging.h"
#include "base/strings.h"
#include "client/batch.h"
#include "client/report.h"
#include "client/requests.h"
#include "client/sequenced.h"
#include "session/service.h"

namespace tinker::client {

using async::Task;

namespace {

constexpr auto kTargets = "target_tokens";
constexpr auto kWeights = "weights";
constexpr auto kLoss = "loss:sum";
constexpr auto kSurrogate = "surrogate_loss:sum";

Error bad_datum(std::size_t index, std::string_view key, std::string_view what) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("data[", index, "]: loss_fn_inputs.", key, ": ", what)};
}

std::size_t rank_of(const TensorData& tensor) {
  return tensor.shape() ? tensor.shape()->size() : 1;
}

/// As many weights as the targets have cells, all the same.
TensorData constant_weights(const TensorData& targets, float value) {
  std::size_t count = targets.size();
  if (targets.is_sparse() && targets.shape()) {
    count = static_cast<std::size_t>(std::accumulate(
        targets.shape()->begin(), targets.shape()->end(), std::int64_t{1}, std::multiplies<>()));
  }
  return {std::vector<float>(count, value), targets.shape()};
}

/// `datum` with nothing but its targets and `weights`.
Datum linear_datum(const Datum& datum, TensorData weights) {
  Datum out = {.model_input = datum.model_input,
               .model_input_spans = datum.model_input_spans,
               .loss_fn_input_spans = datum.loss_fn_input_spans};
  out.loss_fn_inputs.emplace(kTargets, datum.loss_fn_inputs.find(kTargets)->second);
  out.loss_fn_inputs.emplace(kWeights, std::move(weights));
  return out;
}

/// What the model said about each datum, in the form the loss wants.
struct Logprobs {
  std::vector<std::vector<float>> values = {};
  std::vector<std::optional<TensorData::Shape>> shapes = {};
};

Result<Logprobs> logprobs_of(const ForwardBackwardOutput& output, std::size_t count) {
  const auto bad = [](std::string message) {
    return Error{.code = ErrorCode::invalid_response, .message = std::move(message)};
  };
  if (output.loss_fn_outputs.size() != count) {
    return bad(base::concat(
        "expected ", count, " outputs of a forward pass, found ", output.loss_fn_outputs.size()));
  }
  Logprobs out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = output.loss_fn_outputs[i].find("logprobs");
    if (found == output.loss_fn_outputs[i].end() || found->second.dtype() != TensorDtype::float32) {
      return bad(base::concat("output ", i, " of a forward pass has no float32 logprobs"));
    }
    TINKER_TRY(const auto dense, found->second.to_dense());
    out.values.push_back(dense.floats().to_vector());
    out.shapes.push_back(dense.shape());
  }
  return out;
}

/// The caller's function, on the thread of callbacks.
Task<loss::BatchResult> evaluate(std::shared_ptr<async::RuntimeCore> runtime,
                                 loss::BatchFunction function,
                                 std::shared_ptr<const std::vector<Datum>> data,
                                 std::shared_ptr<const Logprobs> logprobs) {
  Promise<loss::BatchResult> promise(runtime->loop());
  auto wait = async::until(promise.future());
  runtime->callbacks()->post([function = std::move(function),
                              data = std::move(data),
                              logprobs = std::move(logprobs),
                              promise = std::move(promise)]() mutable {
    const std::vector<std::span<const float>> spans(logprobs->values.begin(),
                                                    logprobs->values.end());
    try {
      promise.set(function(*data, spans));
    } catch (...) {
      promise.set(detail::error_from_current_exception("a custom loss threw"));
    }
  });
  co_return co_await wait;
}

Result<void> check_gradients(const loss::BatchResult& result, const Logprobs& logprobs) {
  const auto bad = [](std::string message) {
    return Error{.code = ErrorCode::invalid_argument, .message = std::move(message)};
  };
  if (result.gradients.size() != logprobs.values.size()) {
    return bad(base::concat("the custom loss gave gradients for ",
                            result.gradients.size(),
                            " of ",
                            logprobs.values.size(),
                            " data"));
  }
  for (std::size_t i = 0; i < result.gradients.size(); ++i) {
    if (result.gradients[i].size() == logprobs.values[i].size()) continue;
    return bad(base::concat("the custom loss gave ",
                            result.gradients[i].size(),
                            " gradients for data[",
                            i,
                            "], which has ",
                            logprobs.values[i].size(),
                            " logprobs"));
  }
  return {};
}

/// Cross entropy is the sum of -logprob * weight, so the weights are the negated slopes.
std::vector<Datum> linear_data(const std::vector<Datum>& data,
                               loss::BatchResult& result,
                               const Logprobs& logprobs) {
  std::vector<Datum> out;
  out.reserve(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    auto weights = std::move(result.gradients[i]);
    std::ranges::transform(weights, weights.begin(), std::negate<>());
    out.push_back(
        linear_datum(data[i], TensorData(std::move(weights), logprobs.shapes[i]).to_sparse()));
  }
  return out;
}

/// The server's metrics are those of the linear loss; the caller's go over them (step 8).
void merge_metrics(const loss::BatchResult& result, ForwardBackwardOutput& output) {
  auto& metrics = output.metrics;
  std::optional<double> surrogate;
  if (const auto found = metrics.find(kLoss); found != metrics.end()) surrogate = found->second;
  for (const auto& [name, value] : result.metrics) metrics.insert_or_assign(name, value);
  metrics.insert_or_assign(kLoss, result.loss);
  if (surrogate) metrics.insert_or_assign(kSurrogate, *surrogate);
}

/// Up to the data of the second pass.
Task<std::vector<Datum>> first_half(std::shared_ptr<TrainingCore> core,
                                    std::shared_ptr<CustomBatch> batch,
                                    std::shared_ptr<loss::BatchResult> result) {
  const BatchSpec spec = {.forward_only = true, .trace = batch->trace};
  auto forward = std::make_shared<Batch>(core,
                                         std::move(batch->forward_data),
                                         batch->forward_chunks,
                                         batch->forward_turn->range(),
                                         spec);
  auto running = run_batch(std::move(forward), std::move(batch->forward_turn));
  TINKER_CO_TRY(const auto output, co_await std::move(running));
  TINKER_CO_TRY(auto read, logprobs_of(output, batch->data->size()));
  const auto logprobs = std::make_shared<const Logprobs>(std::move(read));
  auto evaluating =
      evaluate(core->session()->runtime, std::move(batch->function), batch->data, logprobs);
  TINKER_CO_TRY(*result, co_await std::move(evaluating));
  TINKER_CO_TRY(check_gradients(*result, *logprobs));
  co_return linear_data(*batch->data, *result, *logprobs);
}

Task<std::string> upload(std::shared_ptr<session::SessionCore> session,
                         loss::Formula formula,
                         std::optional<TraceContext> trace) {
  const CreateCustomLossRequest request = {.session_id = session->session_id,
                                           .custom_loss_seq_id = session->next_custom_loss_seq_id++,
                                           .name = formula.name(),
                                           .inputs = formula.inputs(),
                                           .graph = formula.graph()};
  TINKER_CO_TRY(auto body, session::json_body(request));
  Submission submission = {.name = "create_custom_loss",
                           .request_type = "CreateCustomLoss",
                           .call = {.path = "/api/v1/create_custom_loss",
                                    .body = std::move(body),
                                    .trace = std::move(trace)}};
  auto uploading = submit_and_poll<CreateCustomLossResponse>(session, std::move(submission));
  TINKER_CO_TRY(auto answer, co_await std::move(uploading));
  co_return std::move(answer.loss_id);
}

}  // namespace

Result<CustomBatch> prepare_custom(const std::shared_ptr<TrainingCore>& core,
                                   std::vector<Datum> data,
                                   loss::BatchFunction function) {
  TINKER_TRY(check_batch(data, LossFn::custom));
  CustomBatch batch = {.function = std::move(function)};
  std::vector<Datum> backward_data;  // as large as it will be
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto targets = data[i].loss_fn_inputs.find(kTargets);
    if (targets == data[i].loss_fn_inputs.end()) return bad_datum(i, kTargets, "missing");
    auto zeros = constant_weights(targets->second, 0.0F);
    const auto weights = data[i].loss_fn_inputs.find(kWeights);
    backward_data.push_back(linear_datum(data[i], zeros));
    batch.forward_data.push_back(linear_datum(
        data[i], weights == data[i].loss_fn_inputs.end() ? std::move(zeros) : weights->second));
  }
  const auto& config = core->session()->config;
  batch.forward_chunks = plan_chunks(batch.forward_data, config);
  batch.backward_chunks = plan_chunks(backward_data, config);
  batch.data = std::make_shared<const std::vector<Datum>>(std::move(data));
  const std::int64_t first = std::ssize(batch.forward_chunks);
  const auto both = core->sequencer->take(first + std::ssize(batch.backward_chunks));
  const auto turn = [&](IdRange range) {
    return std::make_shared<Sequencer::Turn>(core->sequencer, range, "forward_backward_custom");
  };
  batch.forward_turn = turn({.first = both.first, .count = first});
  batch.backward_turn = turn({.first = both.first + first, .count = both.count - first});
  return batch;
}

Task<ForwardBackwardOutput> run_custom(std::shared_ptr<TrainingCore> core, CustomBatch custom) {
  const auto batch = std::make_shared<CustomBatch>(std::move(custom));
  const auto result = std::make_shared<loss::BatchResult>();
  auto preparing = first_half(core, batch, result);
  auto data = co_await std::move(preparing);
  if (!data.ok()) {
    // Cancelled by the caller, it is as if it had never been made: no gradient was asked for.
    if (data.error().code != ErrorCode::cancelled) batch->backward_turn->fail(data.error());
    co_return std::move(data).error().with_context("forward_backward_custom");
  }
  const BatchSpec spec = {.trace = batch->trace};
  auto backward = std::make_shared<Batch>(
      core, *std::move(data), batch->backward_chunks, batch->backward_turn->range(), spec);
  auto running = run_batch(std::move(backward), std::move(batch->backward_turn));
  TINKER_CO_TRY(auto output, co_await std::move(running));
  merge_metrics(*result, output);
  co_return output;
}

Result<void> check_inputs(std::span<const Datum> data, const loss::Formula& formula) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    for (const auto& input : formula.inputs()) {
      const std::string key = input.name == "logprobs" ? kTargets : input.name;
      const auto found = data[i].loss_fn_inputs.find(key);
      if (found == data[i].loss_fn_inputs.end()) return bad_datum(i, key, "missing");
      const auto rank = static_cast<std::int64_t>(rank_of(found->second));
      if (rank == input.rank) continue;
      return bad_datum(i, key, base::concat("expected rank ", input.rank, ", found rank ", rank));
    }
  }
  return {};
}

Task<LossHandle> create_loss(std::shared_ptr<session::Service> service,
                             loss::Formula formula,
                             std::optional<TraceContext> trace) {
  auto opening = service->session_holder();
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  const auto session = holder->core();
  if (!session->config.custom_loss_server_side) {
    co_return LossHandle(std::move(formula), session->session_id, std::nullopt);
  }
  auto turn = session->custom_loss_upload.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  auto known = session->custom_losses.find(formula.key());
  if (known == session->custom_losses.end()) {
    auto uploading = upload(session, formula, std::move(trace));
    auto loss_id = co_await std::move(uploading);
    if (!loss_id.ok()) {
      if (is_failure(loss_id.error())) {
        session->telemetry->exception(loss_id.error(), "create_custom_loss");  // R9.13
      }
      co_return std::move(loss_id).error();
    }
    known = session->custom_losses.emplace(formula.key(), *std::move(loss_id)).first;
  }
  co_return LossHandle(std::move(formula), session->session_id, known->second);
}

}  // namespace tinker::client
