#include <iostream>

#include <tinker/local_server.h>
#include <tinker/tinker.h>

int main() {
  const auto server = tinker::LocalServer::start({.model = "random:2x64,vocab=512"}).value();
  const auto service = tinker::ServiceClient::connect(
                           {.base_url = server.base_url(), .api_key = tinker::Secret("tml-local")})
                           .value();
  const auto trainer = service.create_lora_training_client("random").get().value();
  const auto tokenizer = trainer.get_tokenizer().get().value();
  const auto text = tokenizer.encode("Tinker trains, samples and saves.");
  for (int step = 0; step < 16; ++step) {
    auto [gradients, update] = trainer.train_step(
        {tinker::Datum::next_token(text)}, tinker::LossFn::cross_entropy, {.learning_rate = 1e-2});
    std::cout << "loss " << gradients.get().value().loss().value() << '\n';
    update.get().value();
  }
  const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  const auto prompt = tinker::ModelInput::from_tokens(tokenizer.encode("Tinker"));
  const auto answer = sampler.sample(prompt, {.max_tokens = 21, .temperature = 0}).get().value();
  std::cout << "Tinker" << tokenizer.decode(answer.sequences[0].tokens) << '\n';
}
