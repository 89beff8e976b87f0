// Checkpoints without a server: training goes on where it stopped, and what was learned leaves as
// files that other programs read.
#include <filesystem>
#include <iostream>

#include <tinker/engine.h>

namespace {

/// So many steps; returns the last loss.
double train(const tinker::LocalTrainer& trainer, int steps) {
  const tinker::Datum datum = {
      .model_input = tinker::ModelInput::from_tokens({5, 9, 17, 33, 65, 129}),
      .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{9, 17, 33, 65, 129, 2}}}};
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    loss = trainer.forward_backward({&datum, 1}, tinker::LossFn::cross_entropy)->loss().value();
    trainer.optim_step({.learning_rate = 0.01}).value();
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " MODEL FOLDER, which is made and must not exist\n";
    return 2;
  }
  const std::filesystem::path folder = argv[2];
  const auto engine = tinker::Engine::load(argv[1]).value();
  const auto trainer = engine.create_trainer({.rank = 8, .seed = 1}).value();
  train(trainer, 20);

  //! [resume]
  trainer.save(folder / "step-20").value();
  const double went_on = train(trainer, 20);

  const auto resumed = engine.load_trainer(folder / "step-20").value();
  std::cout << "the same to the last bit: " << (train(resumed, 20) == went_on) << '\n';
  //! [resume]

  //! [export]
  engine.export_merged(trainer.snapshot().value(), folder / "merged").value();
  const auto merged = tinker::Engine::load(folder / "merged").value();
  const auto prompt = tinker::ModelInput::from_tokens({5});
  const auto answer = merged.sample(prompt, {.max_tokens = 6, .temperature = 0}).value();
  for (const auto token : answer.sequences[0].tokens) std::cout << token << ' ';
  std::cout << '\n';
  //! [export]

  //! [muon]
  const auto other = engine.create_trainer({.rank = 8, .seed = 1}).value();
  const tinker::Datum datum = {
      .model_input = tinker::ModelInput::from_tokens({5, 9}),
      .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{9, 17}}}};
  other.forward_backward({&datum, 1}, tinker::LossFn::cross_entropy).value();
  other.optim_step(tinker::MuonParams{.learning_rate = 1e-3}).value();
  const auto refused = other.optim_step(tinker::AdamParams{.learning_rate = 1e-3});
  std::cout << refused.error().message << '\n';
  //! [muon]
}
