// Losses of one's own: a formula, a formula with regularizers, and a plain function, on a live
// model. The formula runs on the server where that can.
#include <iostream>
#include <span>

#include "server.h"
#include "text.h"

namespace {

namespace loss = tinker::loss;

//! [focal]
/// Cross entropy that cares less about what is already likely.
tinker::Result<loss::Formula> focal() {
  return loss::Formula::define("focal",
                               {{.name = "logprobs", .rank = 1}, {.name = "weights", .rank = 1}},
                               [](const loss::Inputs& in) {
                                 auto p = exp(in["logprobs"]);
                                 return loss::Output(
                                     -sum(in["weights"] * (1 - p) * in["logprobs"]),
                                     {{"custom/likely:mean", mean(to_float(p > 0.5))}});
                               });
}
//! [focal]

/// The likelihood of the worst letter of each sequence.
tinker::Result<loss::BatchResult> worst_letter(std::span<const tinker::Datum>,
                                               loss::BatchLogprobs logprobs) {
  loss::BatchResult out;
  for (const auto& sequence : logprobs) {
    const auto worst = std::ranges::min_element(sequence);
    out.loss -= *worst;
    auto& slopes = out.gradients.emplace_back(sequence.size(), 0.0F);
    slopes[static_cast<std::size_t>(worst - sequence.begin())] = -1.0F;
  }
  return out;
}

}  // namespace

int main() {
  const example::Server server;
  auto service = server.connect();
  auto trainer =
      service.create_lora_training_client(example::any_model(service), {.seed = 1}).get().value();
  const std::vector<tinker::Datum> batch = {example::next_letters("abcabcabc")};

  //! [train]
  const auto handle = service.create_custom_loss(focal().value()).get().value();
  for (int step = 0; step < 5; ++step) {
    auto gradients = trainer.forward_backward_custom(batch, handle);
    auto update = trainer.optim_step({.learning_rate = 1e-2});
    const auto metrics = gradients.get().value().metrics;
    std::cout << "focal " << metrics.at("loss:sum") << ", likely "
              << metrics.at("custom/likely:mean") << '\n';
    update.get().value();
  }
  //! [train]

  //! [regularized]
  const auto regularized =
      loss::regularize(loss::batch(focal().value()),
                       {{.kind = loss::Entropy{}, .weight = 0.1}, {.kind = loss::L2WeightDecay{}}})
          .value();
  const auto with_terms = trainer.forward_backward_custom(batch, regularized).get().value();
  std::cout << "with regularizers " << with_terms.metrics.at("loss:sum") << '\n';
  //! [regularized]

  const auto worst = trainer.forward_backward_custom(batch, worst_letter).get().value();
  std::cout << "worst letter " << worst.metrics.at("loss:sum") << '\n';
}
