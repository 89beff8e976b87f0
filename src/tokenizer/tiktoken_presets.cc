#include <array>

#include "base/strings.h"
#include "tinker/tokenizer.h"
#include "tokenizer/patterns.h"

namespace tinker {

namespace {

using Special = TiktokenOptions::Special;
namespace patterns = tokenizer::patterns;

/// Every id has a name, most of them a reserved one. 200018 has two; the later one is decoded.
std::vector<Special> harmony_tokens() {
  std::vector<Special> out = {{.content = "<|startoftext|>", .id = 199'998},
                              {.content = "<|endoftext|>", .id = 199'999},
                              {.content = "<|return|>", .id = 200'002},
                              {.content = "<|constrain|>", .id = 200'003},
                              {.content = "<|channel|>", .id = 200'005},
                              {.content = "<|start|>", .id = 200'006},
                              {.content = "<|end|>", .id = 200'007},
                              {.content = "<|message|>", .id = 200'008},
                              {.content = "<|call|>", .id = 200'012}};
  std::size_t next = 2;  // of those with a name of their own
  const std::size_t named = out.size();
  for (std::int32_t id = 200'000; id < 201'088; ++id) {
    if (next < named && out[next].id == id) {
      ++next;
    } else {
      out.push_back({.content = base::concat("<|reserved_", id, "|>"), .id = id});
    }
  }
  out.push_back({.content = "<|endofprompt|>", .id = 200'018});
  return out;
}

}  // namespace

std::optional<TiktokenOptions> TiktokenOptions::preset(std::string_view name) {
  const auto make = [](std::string_view pattern, std::vector<Special> special_tokens) {
    return TiktokenOptions{.pattern = std::string(pattern),
                           .special_tokens = std::move(special_tokens)};
  };
  if (name == "r50k_base" || name == "p50k_base") {
    return make(patterns::kGpt2, {{.content = "<|endoftext|>", .id = 50'256}});
  }
  if (name == "cl100k_base") {
    return make(patterns::kCl100k,
                {{.content = "<|endoftext|>", .id = 100'257},
                 {.content = "<|fim_prefix|>", .id = 100'258},
                 {.content = "<|fim_middle|>", .id = 100'259},
                 {.content = "<|fim_suffix|>", .id = 100'260},
                 {.content = "<|endofprompt|>", .id = 100'276}});
  }
  if (name == "o200k_base") {
    return make(patterns::kO200k,
                {{.content = "<|endoftext|>", .id = 199'999},
                 {.content = "<|endofprompt|>", .id = 200'018}});
  }
  if (name == "o200k_harmony") return make(patterns::kO200k, harmony_tokens());
  return std::nullopt;
}

}  // namespace tinker
