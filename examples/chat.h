#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tinker/tinker.h>

#include "server.h"
#include "text.h"

/// What the recipes share: a server with a real model, and chats of one question and one answer, as
/// SmolLM2 and Qwen know them.
namespace example {

/// The server that TINKER_BASE_URL names, else one with the model of the command line.
inline Server model_server(int argc, char** argv) {
  if (argc < 2 && std::getenv("TINKER_BASE_URL") == nullptr) {
    std::cerr << "usage: " << argv[0] << " MODEL, a GGUF file or a Hugging Face folder; or set "
              << "TINKER_BASE_URL\n";
    std::exit(2);
  }
  return Server({.model = argc < 2 ? "" : argv[1]});
}

class Chat {
 public:
  static constexpr int kMostTokens = 12;  ///< Of an answer.

  explicit Chat(tinker::Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  /// Up to where the answer begins.
  [[nodiscard]] tinker::ModelInput prompt(std::string_view question) const {
    return tinker::ModelInput::from_tokens(asked(question));
  }
  /// Question and answer, with a loss on the answer only.
  [[nodiscard]] tinker::Datum datum(std::string_view question, std::string_view answer) const {
    auto out = asked(question);
    const std::size_t prompt_length = out.size();
    append(out, answer, false);
    append(out, "<|im_end|>", true);
    return tinker::Datum::next_token(std::move(out), prompt_length);
  }

  /// The most likely answers. All are asked for before the first is awaited.
  [[nodiscard]] std::vector<tinker::SampledSequence> ask(
      const tinker::SamplingClient& sampler, const std::vector<std::string>& questions) const {
    std::vector<tinker::Future<tinker::SampleResponse>> answers;
    for (const auto& question : questions) {
      answers.push_back(
          sampler.sample(prompt(question), {.max_tokens = kMostTokens, .temperature = 0}));
    }
    std::vector<tinker::SampledSequence> out;
    for (auto& answer : answers) out.push_back(answer.get().value().sequences.at(0));
    return out;
  }
  [[nodiscard]] std::string text(const tinker::SampledSequence& answer) const {
    return tokenizer_.decode(answer.tokens, {.skip_special_tokens = true});
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> asked(std::string_view question) const {
    std::vector<std::int32_t> out;
    append(out, "<|im_start|>user\n", true);
    append(out, question, false);
    append(out, "<|im_end|>\n<|im_start|>assistant\n", true);
    return out;
  }
  /// Only as markup is "<|im_end|>" the token that ends a turn; what a person says ends none.
  void append(std::vector<std::int32_t>& out, std::string_view text, bool is_markup) const {
    const auto more =
        tokenizer_.encode(text, {.add_special_tokens = false, .parse_special = is_markup});
    out.insert(out.end(), more.begin(), more.end());
  }

  tinker::Tokenizer tokenizer_;
};

}  // namespace example
