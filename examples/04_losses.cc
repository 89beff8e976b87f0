// Losses written once, as formulas: evaluated here, differentiated, regularized, or sent as a
// graph.

#include <iostream>
#include <span>
#include <vector>

#include "tinker/losses.h"

namespace {

namespace loss = tinker::loss;

//! [formula]
tinker::Result<loss::Formula> clipped() {
  return loss::Formula::define(
      "clipped",
      {{.name = "logprobs", .rank = 1}, {.name = "q", .rank = 1}, {.name = "a", .rank = 1}},
      [](const loss::Inputs& in) {
        auto ratio = exp(in["logprobs"] - in["q"]);
        auto objective = -sum(min(ratio * in["a"], clamp(ratio, 0.8, 1.2) * in["a"]));
        return loss::Output(objective, {{"custom/ratio:mean", mean(ratio)}});
      });
}
//! [formula]

//! [function]
/// A loss with an explicit gradient: data and logprobs in, loss and slopes out.
tinker::Result<loss::BatchResult> negative_last(std::span<const tinker::Datum>,
                                                loss::BatchLogprobs logprobs) {
  loss::BatchResult out;
  for (const auto& sequence : logprobs) {
    out.loss -= sequence.back();
    out.gradients.emplace_back(sequence.size(), 0.0F).back() = -1.0F;
  }
  return out;
}
//! [function]

}  // namespace

int main() {
  const auto formula = clipped().value();
  const std::vector<float> logprobs = {-1.0F, -0.5F, -2.0F};
  const tinker::Datum datum = {
      .loss_fn_inputs = {{"q", std::vector<float>{-1.0F, -1.0F, -1.0F}},
                         {"a", std::vector<float>{1.0F, 1.0F, -1.0F}},
                         {"reference_logprobs", std::vector<float>{-1.0F, -1.0F, -1.0F}}}};

  //! [evaluate]
  const auto one = formula.evaluate(logprobs, datum.loss_fn_inputs).value();
  std::cout << "loss " << one.loss << ", first slope " << one.gradient[0] << '\n';
  //! [evaluate]

  //! [regularize]
  const auto regularized =
      loss::regularize(
          loss::batch(formula),
          {{.kind = loss::KlDivergence{.estimator = loss::KlEstimator::k3}, .weight = 0.1},
           {.kind = loss::Entropy{.mode = loss::Entropy::Mode::maximize}, .weight = 0.01}})
          .value();
  //! [regularize]
  const std::vector<std::span<const float>> spans = {logprobs};
  const auto result = regularized(std::span(&datum, 1), spans).value();
  for (const auto& report : result.regularizers) {
    std::cout << report.name << " adds " << report.contribution << '\n';
  }

  const auto plain = negative_last(std::span(&datum, 1), spans).value();
  std::cout << "plain function: " << plain.loss << '\n';

  //! [refused]
  const auto refused =
      loss::Formula::define("fft", {{.name = "logprobs", .rank = 1}}, [](const loss::Inputs& in) {
        return sum(loss::call("torch.fft.fft", {in["logprobs"]}));
      });
  std::cout << refused.error().to_string() << '\n';
  //! [refused]
}
