// Training and sampling on this machine, without a server: give it a Hugging Face folder or a GGUF
// file of a Llama or Qwen model.
#include <iostream>

#include <tinker/engine.h>

namespace {

/// Teaches the model to go on with `text` after its first token.
tinker::Datum by_heart(const std::vector<std::int32_t>& text) {
  return {.model_input = tinker::ModelInput::from_tokens({text.begin(), text.end() - 1}),
          .loss_fn_inputs = {
              {"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())}}};
}

}  // namespace

int main(int argc, char** argv) {
  const auto loaded = tinker::Engine::load(argc > 1 ? argv[1] : ".");
  if (!loaded) {
    std::cerr << loaded.error().to_string() << '\n';
    return 1;
  }
  const tinker::Engine& engine = *loaded;
  //! [train]
  const auto trainer = engine.create_trainer({.rank = 8, .seed = 1}).value();
  const std::vector<tinker::Datum> data = {by_heart({5, 9, 17, 33, 65, 129, 2})};
  for (int step = 0; step < 60; ++step) {
    const auto output = trainer.forward_backward(data, tinker::LossFn::cross_entropy).value();
    trainer.optim_step({.learning_rate = 0.01}).value();
    if (step % 20 == 0) std::cout << "loss " << output.loss().value() << '\n';
  }
  //! [train]

  //! [sample]
  const auto prompt = tinker::ModelInput::from_tokens({5});
  for (const auto& from : {tinker::AdapterSnapshot(), trainer.snapshot().value()}) {
    const auto answer = engine.sample(prompt, {.max_tokens = 6, .temperature = 0}, from).value();
    for (const auto token : answer.sequences[0].tokens) std::cout << token << ' ';
    std::cout << '\n';
  }
  //! [sample]
}
