// The embedded server: a Tinker server inside the program, and the ordinary client beside it.
//
//     24_local_server [MODEL]     a Hugging Face folder or a GGUF file; default: random weights
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <tinker/local_server.h>
#include <tinker/tinker.h>

int main(int argc, char** argv) {
  const std::string source = argc > 1 ? argv[1] : "random:2x64,vocab=512";
  //! [start]
  const auto server =
      tinker::LocalServer::start({.models = {{.name = "mine", .source = source}}}).value();
  const auto service = tinker::ServiceClient::connect(
                           {.base_url = server.base_url(), .api_key = tinker::Secret("tml-local")})
                           .value();
  //! [start]
  const auto trainer =
      service.create_lora_training_client("mine", {.rank = 8, .seed = 1}).get().value();
  const std::vector<tinker::Datum> batch = {
      tinker::Datum::next_token({5, 9, 12, 200, 31, 7, 77, 140, 3})};
  for (int step = 0; step < 12; ++step) {
    auto [gradients, update] =
        trainer.train_step(batch, tinker::LossFn::cross_entropy, {.learning_rate = 1e-2});
    const double loss = gradients.get().value().loss().value();
    if (step % 4 == 0) std::cout << "step " << step << ": loss " << loss << '\n';
    update.get().value();
  }

  // What the sampler says of its tokens is what the trainer says of them, in every bit.
  const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  const auto prompt = tinker::ModelInput::from_tokens({5, 9, 12});
  const auto answer = sampler.sample(prompt, {.max_tokens = 5, .temperature = 0}).get().value();
  std::cout << "goes on with";
  for (const auto token : answer.sequences[0].tokens) std::cout << ' ' << token;
  std::cout << '\n';

  const auto saved = trainer.save_state("learnt").get().value();
  std::cout << "saved " << tinker::TinkerPath::parse(saved.path).value().checkpoint_id() << '\n';
  //! [stop]
  service.close(tinker::SessionFinishReason::success).get().value();
  server.stop(std::chrono::seconds(5)).value();
  //! [stop]
}
