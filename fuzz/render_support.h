#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/chat_tokenizer.h"
#include "tinker/check.h"
#include "tinker/renderer.h"

namespace tinker::testing {

/// A renderer of every name; `which` chooses one.
inline const Renderer& any_renderer(std::uint8_t which) {
  static const auto renderers = [] {
    const auto tokenizer = chat_tokenizer();
    std::vector<Renderer> out;
    for (const auto name : renderer_names()) {
      out.push_back(
          Renderer::create(name, tokenizer, {.eos_token = tokenizer.token_to_id("<|endoftext|>")})
              .value());
    }
    return out;
  }();
  return renderers[which % renderers.size()];
}

/// Text in which 0xFF and a byte stand for a mark: in few bytes a fuzzer gets far with it.
inline std::string with_marks(std::string_view text) {
  static const auto marks = [] {
    std::vector<std::string> out(kChatTokens.begin(), kChatTokens.end());
    for (const char* mark : {"<function=f>",
                             "</function>",
                             "<parameter=p>",
                             "</parameter>",
                             "<｜DSML｜ calls>",
                             "</｜DSML｜ calls>",
                             "<｜DSML｜ invoke name=\"f\">\n",
                             "</｜DSML｜ invoke>",
                             "<｜DSML｜ parameter name=\"p\" string=\"true\">",
                             "</｜DSML｜ parameter>",
                             "<|tool_call_section_begin|>",
                             "functions.f:0",
                             " to=functions.f",
                             "analysis",
                             "commentary",
                             "final",
                             "{\"name\": \"f\", \"arguments\": {}}",
                             "{\"name\":\"f\",\"args\":{}}",
                             "\n\nUser:"}) {
      out.emplace_back(mark);
    }
    return out;
  }();
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\xFF' && i + 1 < text.size()) {
      out += marks[static_cast<std::uint8_t>(text[++i]) % marks.size()];
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace tinker::testing
