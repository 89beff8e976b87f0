// A batch for forward_backward: token ids in, targets shifted by one, loss on the answer only.

#include <iostream>

#include <tinker/tinker.h>

namespace {

//! [datum]
/// Next-token prediction: position i learns token i + 1; prompt positions weigh nothing.
tinker::Datum make_datum(std::vector<std::int32_t> tokens, std::size_t prompt_length) {
  const std::vector<std::int64_t> targets(tokens.begin() + 1, tokens.end());
  std::vector<float> weights(targets.size(), 1.0F);
  for (std::size_t i = 0; i + 1 < prompt_length; ++i) weights[i] = 0.0F;
  tokens.pop_back();
  return {
      .model_input = tinker::ModelInput::from_tokens(std::move(tokens)),
      .loss_fn_inputs = {{"target_tokens", targets}, {"weights", weights}},
  };
}
//! [datum]

}  // namespace

int main() {
  std::vector<tinker::Datum> batch = {
      make_datum({464, 3139, 286, 4881, 318, 6342}, 5),
      make_datum({464, 3139, 286, 4486, 318}, 4),
  };
  tinker::validate(batch).value();

  std::int64_t positions = 0;
  for (const auto& datum : batch) positions += datum.model_input.length().value();
  std::cout << batch.size() << " examples, " << positions << " positions\n";

  // Mistakes are found here, by name, not by a server minutes later.
  batch[1].loss_fn_inputs["weights"] = tinker::TensorData(
      tinker::Buffer<float>(std::vector{1.0F, 1.0F}), tinker::TensorData::Shape{4});
  if (const auto checked = tinker::validate(batch); !checked) {
    std::cout << "refused: " << checked.error().to_string() << '\n';
  }
}
