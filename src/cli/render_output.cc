#include "cli/render_output.h"

#include <algorithm>
#include <iostream>
#include <string_view>
#include <utility>
#include <variant>

#include "base/strings.h"
#include "cli/visible_text.h"

namespace tinker::cli {
namespace {

using base::concat;

enum class Part { given, trained, stop };

/// Neighbouring positions of one kind.
struct Run {
  Part part = Part::given;
  std::vector<std::int32_t> tokens = {};
  std::string image = {};  ///< Instead of tokens.
};

bool ends_messages(const Stop& stop, std::int32_t id) {
  const auto* ids = std::get_if<std::vector<std::int32_t>>(&stop);
  return ids && std::ranges::find(*ids, id) != ids->end();
}

/// How many positions an image takes; the renderer has made sure that it says so.
std::size_t length_of(const ModelInputChunk& chunk) {
  const auto length = ModelInput{.chunks = {chunk}}.length();
  return length.ok() ? static_cast<std::size_t>(*length) : 0;
}

std::vector<Run> runs_of(const Renderer& renderer, const SupervisedExample& example) {
  const auto stop = renderer.stop();
  std::vector<Run> out;
  std::size_t at = 0;
  for (const auto& chunk : example.input.chunks) {
    const auto* text = std::get_if<EncodedTextChunk>(&chunk);
    if (!text) {
      const auto length = length_of(chunk);
      out.push_back({.image = concat("<image: ", length, " tokens>")});
      at += length;
      continue;
    }
    for (const auto id : text->tokens) {
      const bool is_trained = at < example.weights.size() && example.weights[at] != 0;
      const Part part = !is_trained               ? Part::given
                        : ends_messages(stop, id) ? Part::stop
                                                  : Part::trained;
      if (out.empty() || out.back().part != part || !out.back().image.empty()) {
        out.push_back({.part = part});
      }
      out.back().tokens.push_back(id);
      ++at;
    }
  }
  return out;
}

/// Visible text, with a line break behind each row of "\n".
std::string in_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto newline = std::min(text.find('\n'), text.size());
    const auto next = std::min(text.find_first_not_of('\n', newline), text.size());
    out += visible(text.substr(0, next));
    if (next > newline) out += '\n';
    text.remove_prefix(next);
  }
  return out;
}

/// Two shades take turns, so that tokens can be told apart.
std::string in_colours(const Tokenizer& tokenizer, const std::vector<Run>& runs) {
  std::string out;
  std::size_t next = 0;
  for (const auto& run : runs) {
    if (!run.image.empty()) out += concat("\x1b[38;5;173m", run.image, "\x1b[0m");
    for (const auto id : run.tokens) {
      const bool is_odd = next++ % 2 == 1;
      const std::string_view style = run.part == Part::stop ? "1;7;38;5;203"
                                     : run.part == Part::trained
                                         ? is_odd ? "1;38;5;46" : "1;38;5;118"
                                     : is_odd ? "38;5;240"
                                              : "38;5;246";
      const auto text = tokenizer.id_to_bytes(id).value_or("");
      out +=
          concat("\x1b[", style, "m", visible(text), "\x1b[0m", text.ends_with('\n') ? "\n" : "");
    }
  }
  return out;
}

std::string in_brackets(const Tokenizer& tokenizer, const std::vector<Run>& runs) {
  std::string out;
  bool is_open = false;
  for (const auto& run : runs) {
    const bool opens = run.part != Part::given;
    if (opens != is_open) out += opens ? "⟦" : "⟧";
    is_open = opens;
    const auto text = run.image.empty() ? in_lines(tokenizer.decode(run.tokens)) : run.image;
    out += run.part == Part::stop ? concat("«", text, "»") : text;
  }
  return out + (is_open ? "⟧" : "");
}

void print_runs(const Renderer& renderer, const SupervisedExample& example) {
  const auto runs = runs_of(renderer, example);
  const auto text = has_colours() ? in_colours(renderer.tokenizer(), runs)
                                  : in_brackets(renderer.tokenizer(), runs);
  std::cout << text << (text.ends_with('\n') ? "" : "\n");
}

std::size_t length_of(const ModelInput& input) {
  std::size_t out = 0;
  for (const auto& chunk : input.chunks) out += length_of(chunk);
  return out;
}

}  // namespace

void print_example(const Renderer& renderer, const SupervisedExample& example) {
  print_runs(renderer, example);
  const auto trained =
      std::ranges::count_if(example.weights, [](float weight) { return weight != 0; });
  std::cout << example.weights.size() << " tokens, " << trained << " trained\n";
}

void print_prompt(const Renderer& renderer, const ModelInput& prompt) {
  print_runs(renderer, {.input = prompt});
  std::cout << length_of(prompt) << " tokens\n";
}

void write_renderer(wire::JsonWriter& writer, const Renderer& renderer) {
  writer.key("renderer");
  writer.string(renderer.name());
  writer.key("stop");
  const auto stop = renderer.stop();
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&stop)) {
    writer.integers(*ids);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&stop)) {
    writer.begin_array();
    for (const auto& text : *texts) writer.string(text);
    writer.end_array();
  } else {
    writer.string(std::get<std::string>(stop));
  }
}

void write_tokens(wire::JsonWriter& writer, const ModelInput& input) {
  std::vector<std::int32_t> tokens;
  for (const auto& chunk : input.chunks) {
    if (const auto* text = std::get_if<EncodedTextChunk>(&chunk)) {
      tokens.insert(tokens.end(), text->tokens.begin(), text->tokens.end());
    } else {
      tokens.insert(tokens.end(), length_of(chunk), 0);
    }
  }
  writer.integers(tokens);
}

std::string shown_difference(const Tokenizer& tokenizer,
                             std::span<const std::int32_t> tokens,
                             std::size_t at) {
  constexpr std::size_t kBefore = 12;
  constexpr std::size_t kBehind = 12;
  const auto begin = at - std::min(at, kBefore);
  const auto end = std::min(tokens.size(), at + kBehind);
  const auto before = tokenizer.decode(tokens.subspan(begin, at - begin));
  std::string out = concat(begin > 0 ? "…" : "", visible(before));
  if (at == tokens.size()) return out + "⟦⟧, the end";
  const auto rest = visible(tokenizer.decode(tokens.subspan(at + 1, end - at - 1)));
  return concat(out,
                "⟦",
                visible(tokenizer.decode(tokens.subspan(at, 1))),
                "⟧",
                rest,
                end < tokens.size() ? "…" : "");
}

}  // namespace tinker::cli
