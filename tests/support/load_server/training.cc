#include "support/load_server/training.h"

#include <charconv>
#include <vector>

#include "base/strings.h"
#include "wire/proto.h"

namespace tinker::load_server {

namespace {

constexpr std::string_view kCreateModel = "create_model-";
constexpr std::string_view kOptimStep = "optim_step-";
constexpr std::string_view kForwardBackward = "forward_backward-";

/// "forward_backward-7-512x2048": 512 data of 2048 tokens. A body that cannot be read has none.
std::string forward_backward_id(const std::string& body, std::uint64_t number) {
  const auto request = wire::decode_proto<ForwardBackwardRequest>(body);
  std::size_t data = 0;
  std::int64_t tokens = 0;
  if (request.ok() && !request->data.empty()) {
    data = request->data.size();
    const auto length = request->data.front().model_input.length();
    tokens = length.ok() ? *length : 0;
  }
  return base::concat(kForwardBackward, number, "-", data, "x", tokens);
}

std::string forward_backward_output(std::size_t data, std::size_t tokens) {
  const TensorData logprobs = std::vector<float>(tokens, -1.0F);
  const ForwardBackwardOutput output = {
      .loss_fn_output_type = "TorchLossReturn",
      .loss_fn_outputs = std::vector<NamedTensors>(data, {{"logprobs", logprobs}}),
      .metrics = {{"loss:sum", static_cast<double>(data * tokens)}},
  };
  auto body = wire::encode_proto(output);
  return body.ok() ? *std::move(body) : std::string();
}

std::size_t number_at(std::string_view text) {
  std::size_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

}  // namespace

std::optional<std::string> training_id(std::string_view path,
                                       const std::string& body,
                                       std::uint64_t number) {
  if (path.ends_with("/create_model")) return base::concat(kCreateModel, number);
  if (path.ends_with("/optim_step")) return base::concat(kOptimStep, number);
  if (path.ends_with("/forward_backward")) return forward_backward_id(body, number);
  return std::nullopt;
}

std::optional<TrainingResult> training_result(std::string_view id) {
  if (id.starts_with(kCreateModel)) {
    const auto number = id.substr(kCreateModel.size());
    return TrainingResult{.body = base::concat(R"({"model_id":"session-1:train:)",
                                               number,
                                               R"(","type":"create_model"})")};
  }
  if (id.starts_with(kOptimStep)) return TrainingResult{.body = R"({"metrics":{"grad_norm":1.0}})"};
  if (!id.starts_with(kForwardBackward)) return std::nullopt;
  const auto shape = id.substr(id.rfind('-') + 1);
  const auto tokens = shape.substr(std::min(shape.find('x'), shape.size() - 1) + 1);
  return TrainingResult{.body = forward_backward_output(number_at(shape), number_at(tokens)),
                        .is_protobuf = true};
}

}  // namespace tinker::load_server
