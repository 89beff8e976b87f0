// Sampling: a few continuations of one prompt, and what the model thinks of the prompt itself.
#include <iostream>

#include "server.h"
#include "text.h"

int main() {
  const example::Server server;
  auto service = server.connect();
  const auto model = example::any_model(service);
  //! [sample]
  auto sampler = service.create_sampling_client({.base_model = model}).get().value();
  const auto prompt = tinker::ModelInput::from_tokens(example::tokens("Hello, "));
  const auto answer = sampler
                          .sample(prompt,
                                  {.max_tokens = 8, .seed = 7, .temperature = 0.7},
                                  {.num_samples = 3, .topk_sample_logprobs = 2})
                          .get()
                          .value();
  for (const auto& sequence : answer.sequences) {
    std::cout << sequence.tokens.size() << " tokens: " << example::text(sequence.tokens) << '\n';
  }
  //! [sample]

  //! [logprobs]
  for (const auto& logprob : sampler.compute_logprobs(prompt).get().value()) {
    std::cout << (logprob ? std::to_string(*logprob) : "none") << ' ';
  }
  //! [logprobs]
  std::cout << '\n';

  //! [error]
  const auto refused = sampler.sample(prompt, {}, {.prompt_alt_tokens_k = -1}).get();
  std::cout << refused.error().to_string() << '\n';
  //! [error]
}
