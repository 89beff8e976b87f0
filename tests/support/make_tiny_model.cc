// make_tiny_model FOLDER: a random model of a few thousand parameters, for tests that need some
// model.
#include <iostream>

#include "engine/random_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_tiny_model FOLDER\n";
    return 2;
  }
  const tinker::engine::ModelConfig config = {
      .architecture = tinker::engine::ModelConfig::Architecture::qwen3,
      .vocab_size = 300,
      .hidden_size = 32,
      .ffn_size = 64,
      .layers = 2,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 8,
      .context_length = 256,
      .tied_head = true,
      .eos_ids = {2}};
  const auto done = tinker::engine::write_random_model(argv[1], config, 3);
  if (!done.ok()) {
    std::cerr << done.error().to_string() << '\n';
    return 1;
  }
}
