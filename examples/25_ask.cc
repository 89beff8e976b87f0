// Asks a stored checkpoint, on a server that need not know the run that it is from:
//
//     25_ask TOKENIZER CHECKPOINT QUESTION...
//
// TOKENIZER is the model's folder or GGUF file; the server is the one that TINKER_BASE_URL names.
#include <iostream>

#include "chat.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: " << argv[0] << " TOKENIZER CHECKPOINT QUESTION...\n";
    return 2;
  }
  const example::Chat chat(tinker::Tokenizer::load(argv[1]).value());
  const auto service = tinker::ServiceClient::connect().value();
  const auto sampler = service.create_sampling_client({.model_path = argv[2]}).get().value();
  const std::vector<std::string> questions(argv + 3, argv + argc);
  const auto answers = chat.ask(sampler, questions);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    std::cout << "  " << questions[i] << " -> " << chat.text(answers[i]) << '\n';
  }
  service.close(tinker::SessionFinishReason::success).get().value();
}
