// A batch for forward_backward: token ids in, targets shifted by one, loss on the answer only.

#include <iostream>

#include <tinker/tinker.h>

int main() {
  //! [datum]
  // Position i learns token i + 1; targets among the first 5 (or 4) tokens, the prompt, weigh
  // nothing.
  std::vector<tinker::Datum> batch = {
      tinker::Datum::next_token({464, 3139, 286, 4881, 318, 6342}, 5),
      tinker::Datum::next_token({464, 3139, 286, 4486, 318}, 4),
  };
  tinker::validate(batch, tinker::LossFn::cross_entropy).value();
  //! [datum]

  std::int64_t positions = 0;
  for (const auto& datum : batch) positions += datum.model_input.length().value();
  std::cout << batch.size() << " examples, " << positions << " positions\n";

  // Mistakes are found here, by name, not by a server minutes later.
  const auto show = [&] {
    const auto checked = tinker::validate(batch, tinker::LossFn::cross_entropy);
    std::cout << (checked.ok() ? "good" : "refused: " + checked.error().to_string()) << '\n';
  };
  const auto weights = batch[1].loss_fn_inputs["weights"];
  batch[1].loss_fn_inputs["weights"] = tinker::TensorData(
      tinker::Buffer<float>(std::vector{1.0F, 1.0F}), tinker::TensorData::Shape{4});
  show();
  batch[1].loss_fn_inputs["weights"] = std::vector{1.0F, 1.0F};
  show();
  batch[1].loss_fn_inputs.erase("weights");
  batch[1].loss_fn_inputs["weigths"] = weights;
  show();
}
