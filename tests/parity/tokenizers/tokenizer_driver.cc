// Our side of the sweep (sweep.py): tasks on standard input, answers on standard output.
//
//     tokenizer_driver PATH    a file or folder that Tokenizer::load takes
//
// A task is a letter, a size of 32 bits, and so many bytes; an answer is a size and its bytes.

#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/tokenizer.h"

namespace {

using Ids = std::vector<std::int32_t>;

Ids ids_of(std::string_view bytes) {
  Ids out(bytes.size() / sizeof(std::int32_t));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(std::int32_t));
  return out;
}

std::string bytes_of(const Ids& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t)};
}

std::string sized(std::string_view bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  return out.append(bytes);
}

/// Id, begin and end of each token.
std::string offsets_of(const tinker::Tokenizer& tokenizer, std::string_view text) {
  const auto encoding = tokenizer.encode_with_offsets(text, {.add_special_tokens = false});
  Ids out;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto& [begin, end] = encoding.offsets[i];
    out.insert(out.end(),
               {encoding.ids[i], static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)});
  }
  return bytes_of(out);
}

/// What a stream gives that ends after one token, after two, and so on.
std::string streams_of(const tinker::Tokenizer& tokenizer, const Ids& ids) {
  std::string out;
  for (std::size_t count = 1; count <= ids.size(); ++count) {
    auto stream = tokenizer.decode_stream();
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += stream.push(ids[i]);
    out += sized(text + stream.finish());
  }
  return out;
}

std::optional<std::string> answer(const tinker::Tokenizer& tokenizer,
                                  char task,
                                  std::string_view bytes) {
  switch (task) {
    case 'p': return bytes_of(tokenizer.encode(bytes, {.add_special_tokens = false}));
    case 's':
      return bytes_of(
          tokenizer.encode(bytes, {.add_special_tokens = false, .parse_special = true}));
    case 'a': return bytes_of(tokenizer.encode(bytes, {.parse_special = true}));
    case 'd': return tokenizer.decode(ids_of(bytes));
    case 'k': return tokenizer.decode(ids_of(bytes), {.skip_special_tokens = true});
    case 'o': return offsets_of(tokenizer, bytes);
    case 'f': return streams_of(tokenizer, ids_of(bytes));
    default: return std::nullopt;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto loaded = tinker::Tokenizer::load(argc > 1 ? argv[1] : "");
  if (!loaded.ok()) {
    std::cerr << loaded.error().to_string() << '\n';
    return 1;
  }
  std::ios::sync_with_stdio(false);
  char task = 0;
  std::string bytes;
  while (std::cin.get(task)) {
    std::uint32_t size = 0;
    std::cin.read(reinterpret_cast<char*>(&size), sizeof size);
    bytes.resize(size);
    std::cin.read(bytes.data(), size);
    const auto out = answer(*loaded, task, bytes);
    if (!std::cin || !out) {
      std::cerr << "no task: '" << task << "'\n";
      return 1;
    }
    std::cout << sized(*out);
  }
  return std::cout.flush() ? 0 : 1;
}
