// What rendering costs. `./dev bench render` (render_area.py) runs this beside the official Python
// (render_peer.py), on the same conversations:
//
//     render_bench render RENDERER TOKENIZER CONVERSATIONS    prompts, examples, and data of lines
//     render_bench jinja TEMPLATE CONVERSATIONS               conversations to text
//
// A JSON line for each measurement: what, its best seconds, and how much was made.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/template.h"
#include "jinja/utf8.h"
#include "render/python_json.h"
#include "tinker/renderer.h"
#include "tinker/training_data.h"
#include "wire/json.h"

namespace tinker {
namespace {

constexpr int kRepetitions = 3;
using Conversations = std::vector<std::vector<Message>>;

std::string read_file(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(content).str();
}

/// `work` gives how much it made.
void measure(const std::string& what,
             std::string_view unit,
             const std::function<std::size_t()>& work) {
  double best = 1e9;
  std::size_t made = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    made = work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  std::printf("{\"what\": \"%s\", \"seconds\": %.9f, \"%s\": %zu}\n",
              what.c_str(),
              best,
              std::string(unit).c_str(),
              made);
}

void bench_renderer(const std::string& name, const std::string& folder, const std::string& path) {
  const auto renderer = Renderer::create(name, Tokenizer::load(folder).value()).value();
  const auto file = JsonlFile::open(path).value();
  Conversations conversations;
  Conversations prompts;
  for (std::size_t i = 0; i < file.size(); ++i) {
    auto row = file.row(i).value();
    conversations.push_back(std::get<ConversationRow>(std::move(row)).conversation.messages);
    prompts.push_back(conversations.back());
    prompts.back().pop_back();
  }
  const auto length_of = [](const ModelInput& input) {
    return static_cast<std::size_t>(input.length().value());
  };
  measure("prompt " + name, "tokens", [&] {
    std::size_t out = 0;
    for (const auto& messages : prompts) {
      out += length_of(renderer.build_generation_prompt(messages).value());
    }
    return out;
  });
  const auto mode = TrainOnWhat::all_assistant_messages;
  measure("example " + name, "tokens", [&] {
    std::size_t out = 0;
    for (const auto& messages : conversations) {
      out += length_of(renderer.build_supervised_example(messages, mode).value().input);
    }
    return out;
  });
  measure("data " + name, "tokens", [&] {
    std::size_t out = 0;
    const auto lines = JsonlFile::open(path).value();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto row = lines.row(i).value();
      for (const auto& datum : to_data(row, renderer, {.splits = false}).value()) {
        out += length_of(datum.model_input);
      }
    }
    return out;
  });
}

void bench_jinja(const std::string& path, const std::string& conversations) {
  const auto source = read_file(path);
  const auto parsed = jinja::Template::parse(source).value();
  std::vector<jinja::Dict> given;
  std::ifstream lines(conversations);
  for (std::string line; std::getline(lines, line);) {
    const auto json = wire::decode_json<Json>(line).value();
    jinja::Dict variables;
    variables.set("messages", render::to_value(*json.find("messages")));
    variables.set("tools", jinja::Value());
    variables.set("add_generation_prompt", true);
    variables.set("bos_token", "<s>");
    variables.set("eos_token", "</s>");
    given.push_back(std::move(variables));
  }
  const auto name = path.substr(path.rfind('/') + 1);
  // The peer's strings know how many characters they have; ours are counted before.
  std::vector<std::size_t> lengths;
  for (const auto& variables : given) {
    lengths.push_back(jinja::length_of(parsed.render(variables, {}).value()));
  }
  measure("jinja " + name.substr(0, name.rfind('.')), "characters", [&] {
    std::size_t out = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto text = parsed.render(given[i], {});
      if (text.ok()) out += lengths[i];
    }
    return out;
  });
}

}  // namespace
}  // namespace tinker

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.size() == 4 && given[0] == "render") {
    tinker::bench_renderer(given[1], given[2], given[3]);
  } else if (given.size() == 3 && given[0] == "jinja") {
    tinker::bench_jinja(given[1], given[2]);
  } else {
    std::fputs("usage: render_bench render RENDERER TOKENIZER CONVERSATIONS\n", stderr);
    std::fputs("       render_bench jinja TEMPLATE CONVERSATIONS\n", stderr);
    return 2;
  }
}
