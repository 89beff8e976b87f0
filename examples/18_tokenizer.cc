// Text to tokens and back, without Python: give it the folder of a model, a tokenizer.json, a
// tiktoken file, a GGUF file, or the id of a model.

#include <filesystem>
#include <iostream>
#include <string>

#include <tinker/tinker.h>

namespace {

//! [hub]
tinker::Result<tinker::Tokenizer> load(const std::string& name) {
  if (std::filesystem::exists(name)) return tinker::Tokenizer::load(name);
  const auto hub = tinker::Hub::open();
  if (!hub) return hub.error();
  return hub->tokenizer(name).get();  // "Qwen/Qwen3-8B": comes once, then it is in the cache
}
//! [hub]

}  // namespace

int main(int argc, char** argv) {
  const auto loaded = load(argc > 1 ? argv[1] : ".");
  if (!loaded) {
    std::cerr << loaded.error().to_string() << '\n';
    return 1;
  }
  const tinker::Tokenizer& tokenizer = *loaded;
  std::cout << tokenizer.vocab_size() << " tokens\n";

  //! [encode]
  const std::string text = "It's a café, isn't it?";
  const auto ids = tokenizer.encode(text, {.add_special_tokens = false});
  for (const auto id : ids) std::cout << '[' << tokenizer.id_to_token(id).value() << "] ";
  std::cout << "\nround trip: " << (tokenizer.decode(ids) == text) << '\n';
  //! [encode]

  //! [special]
  // What a user writes stays text; what you write yourself may be a control token.
  const auto from_user = tokenizer.encode("<|end|>");
  const auto from_you = tokenizer.encode("<|end|>", {.parse_special = true});
  std::cout << "forged: " << tokenizer.is_special(from_user.front())
            << ", meant: " << tokenizer.is_special(from_you.front()) << '\n';
  //! [special]

  //! [stream]
  // Tokens of a sampler come one by one; a character may need several.
  auto stream = tokenizer.decode_stream({.skip_special_tokens = true});
  for (const auto id : ids) std::cout << stream.push(id) << std::flush;
  std::cout << stream.finish() << '\n';
  //! [stream]

  //! [offsets]
  const auto encoding = tokenizer.encode_with_offsets(text, {.add_special_tokens = false});
  const auto [begin, end] = encoding.offsets.back();
  std::cout << "the last token is '" << text.substr(begin, end - begin) << "' at byte " << begin
            << '\n';
  //! [offsets]
}
