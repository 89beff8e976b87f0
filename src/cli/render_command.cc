#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/render_output.h"
#include "cli/renderer_choice.h"
#include "render/data_row.h"
#include "render/train_on.h"
#include "tinker/chat.h"
#include "tinker/renderer.h"
#include "tokenizer/file_reader.h"
#include "wire/json_writer.h"

namespace tinker::cli {
namespace {

struct RenderCommand {
  RendererChoice choice = {};
  std::string file = {};
  std::string train_on = "all_assistant_messages";
  bool prompt = false;
  bool json = false;
  bool check = false;
};

Result<Conversation> read_conversation(const std::string& file) {
  std::string text;
  if (file == "-") {
    text = {std::istreambuf_iterator<char>(std::cin), {}};
  } else {
    TINKER_TRY(text, tokenizer::read_file(file));
  }
  auto out = Conversation::parse(text);
  if (!out.ok()) {
    return std::move(out).error().with_context(file == "-" ? "standard input" : file);
  }
  return out;
}

/// The prompt that the last message answers, if that is the assistant's; of all messages otherwise.
Result<ModelInput> prompt_of(const Conversation& conversation, const Renderer& renderer) {
  TINKER_TRY(auto messages, render::with_tools(conversation, renderer));
  if (!messages.empty() && messages.back().role == "assistant") messages.pop_back();
  return renderer.build_generation_prompt(std::move(messages));
}

void print_examples(const Renderer& renderer, const std::vector<SupervisedExample>& examples) {
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (examples.size() > 1) {
      std::cout << (i > 0 ? "\n" : "") << "example " << i + 1 << " of " << examples.size() << '\n';
    }
    print_example(renderer, examples[i]);
  }
  if (examples.empty()) std::cout << "no message to train\n";
}

std::string examples_json(const Renderer& renderer,
                          const std::vector<SupervisedExample>& examples) {
  wire::JsonWriter writer(wire::NonFinite::refuse);
  writer.begin_object();
  write_renderer(writer, renderer);
  writer.key("examples");
  writer.begin_array();
  for (const auto& example : examples) {
    writer.begin_object();
    writer.key("tokens");
    write_tokens(writer, example.input);
    writer.key("weights");
    writer.begin_array();
    for (const float weight : example.weights) writer.number(weight);
    writer.end_array();
    writer.end_object();
  }
  writer.end_array();
  writer.end_object();
  return std::move(writer).take();
}

std::string prompt_json(const Renderer& renderer, const ModelInput& prompt) {
  wire::JsonWriter writer(wire::NonFinite::refuse);
  writer.begin_object();
  write_renderer(writer, renderer);
  writer.key("prompt");
  write_tokens(writer, prompt);
  writer.end_object();
  return std::move(writer).take();
}

/// Compares the prompt with that of the model's own template.
Result<int> check(const RenderCommand& command,
                  const Conversation& conversation,
                  const Renderer& renderer) {
  if (renderer.name() == kTemplate) {
    return Error::invalid_argument(
        "--check compares a renderer with the model's template; this one is that template");
  }
  TINKER_TRY(const auto own_template, load_template(command.choice, renderer));
  TINKER_TRY(const auto prompt, prompt_of(conversation, renderer));
  TINKER_TRY(const auto ours, prompt.to_tokens());
  TINKER_TRY(const auto template_prompt, prompt_of(conversation, own_template));
  TINKER_TRY(const auto theirs, template_prompt.to_tokens());
  if (ours == theirs) {
    std::cout << renderer.name() << " and the template make the same prompt of " << ours.size()
              << " tokens\n";
    return kOk;
  }
  const auto& tokenizer = renderer.tokenizer();
  const auto same = std::ranges::mismatch(ours, theirs).in1 - ours.begin();
  const auto at = static_cast<std::size_t>(same);
  const bool is_same_text = tokenizer.decode(ours) == tokenizer.decode(theirs);
  std::cout << "the prompts differ from token " << at << " on"
            << (is_same_text ? ", where the same text is cut differently" : "") << ":\n"
            << renderer.name() << ", " << ours.size()
            << " tokens: " << shown_difference(tokenizer, ours, at) << '\n'
            << "the template, " << theirs.size()
            << " tokens: " << shown_difference(tokenizer, theirs, at) << '\n';
  return kRefused;
}

Result<int> run_render(const RenderCommand& command) {
  TINKER_TRY(const auto mode, parse_train_on_what(command.train_on));
  TINKER_TRY(const auto conversation, read_conversation(command.file));
  TINKER_TRY(const auto renderer, load_renderer(command.choice));
  if (command.check) return check(command, conversation, renderer);
  if (command.prompt) {
    TINKER_TRY(const auto prompt, prompt_of(conversation, renderer));
    if (command.json) {
      std::cout << prompt_json(renderer, prompt) << '\n';
    } else {
      print_prompt(renderer, prompt);
    }
    return kOk;
  }
  TINKER_TRY(const auto examples, render::examples_of(conversation, renderer, mode, true));
  if (command.json) {
    std::cout << examples_json(renderer, examples) << '\n';
  } else {
    print_examples(renderer, examples);
  }
  return kOk;
}

}  // namespace

void add_render_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<RenderCommand>();
  CLI::App* command =
      app.add_subcommand("render", "Show a conversation as the tokens that a model is trained on");
  add_renderer_options(*command, options->choice);
  auto* train_on = command->add_option(
      "--train-on", options->train_on, "What is trained, e.g. last_assistant_message");
  train_on->capture_default_str();
  auto* prompt = command->add_flag(
      "--prompt", options->prompt, "Show the prompt of the next message of the assistant");
  auto* json = command->add_flag("--json", options->json, "Print one JSON object on one line");
  prompt->excludes(train_on);
  command
      ->add_flag("--check",
                 options->check,
                 "Compare the prompt with that of the model's own template; exit with 1 if they "
                 "differ")
      ->excludes(train_on)
      ->excludes(prompt)
      ->excludes(json);
  command->add_option("FILE", options->file, "A conversation in JSON; - for standard input")
      ->required();
  command->footer(
      "Prompts are grey, what is trained is bright, its end is marked; without colours it looks\n"
      "like ⟦this«<|im_end|>»⟧. A conversation whose earlier turns a model does not see as it\n"
      "wrote them becomes several examples. A last message of the assistant is not part of the\n"
      "prompt that --prompt and --check look at.");
  command->callback([options, &status] {
    if (!options->choice.is_made()) throw CLI::RequiredError("--model or --tokenizer");
    std::ios::sync_with_stdio(false);
    const auto done = run_render(*options);
    status = done.ok() ? *done : kRefused;
    if (!done.ok()) std::cerr << "tinker render: " << done.error().to_string() << '\n';
    if (!std::cout.flush()) {
      std::cerr << "tinker render: standard output could not be written\n";
      status = kRefused;
    }
  });
}

}  // namespace tinker::cli
