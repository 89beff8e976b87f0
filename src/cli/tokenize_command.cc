#include <array>
#include <charconv>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/relative_path.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/visible_text.h"
#include "tinker/hub.h"
#include "tinker/tokenizer.h"
#include "wire/json_writer.h"

namespace tinker::cli {
namespace {

struct TokenizeOptions {
  std::string model = {};
  std::string revision = {};
  std::string path = {};
  std::vector<std::string> text = {};
  bool ids = false;
  bool json = false;
  bool decode = false;
  bool no_special = false;
  bool parse_special = false;
};

Result<Tokenizer> load(const TokenizeOptions& options) {
  if (!options.path.empty()) return Tokenizer::load(options.path);
  TINKER_TRY(auto id, TokenizerId::of_model(options.model));
  if (!options.revision.empty()) id.revision = options.revision;
  TINKER_TRY(const auto hub, Hub::open());
  return hub.tokenizer(std::move(id)).get();
}

/// The arguments with a space between them, else all of standard input.
std::string read_input(const TokenizeOptions& options) {
  if (options.text.empty()) return {std::istreambuf_iterator<char>(std::cin), {}};
  std::string out;
  for (const auto& word : options.text) {
    if (&word != options.text.data()) out += ' ';
    out += word;
  }
  return out;
}

/// "1 2 3", "1,2,3" or "[1, 2, 3]".
Result<std::vector<std::int32_t>> parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<std::int32_t> out;
  for (auto at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween)) {
    text.remove_prefix(at);
    const auto word = text.substr(0, text.find_first_of(kBetween));
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat("expected token ids, found ", base::quoted(word))};
    }
    out.push_back(id);
    text.remove_prefix(word.size());
  }
  return out;
}

std::string text_of(const Tokenizer& tokenizer, std::int32_t id) {
  return visible(tokenizer.id_to_bytes(id).value_or(""));
}

void print_lines(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  for (const auto id : ids) std::cout << id << '\t' << text_of(tokenizer, id) << '\n';
}

/// The text itself, each token on another ground.
void print_coloured(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  constexpr std::array<int, 5> kGrounds = {
      189, 194, 223, 224, 195};  // of the 256 colours, all pale
  std::size_t next = 0;
  for (const auto id : ids) {
    const std::string text = text_of(tokenizer, id);
    std::cout << "\x1b[38;5;16;48;5;" << kGrounds[next++ % kGrounds.size()] << 'm' << text
              << "\x1b[0m";
    if (text.ends_with("\\n")) std::cout << '\n';
  }
  std::cout << "\n" << ids.size() << (ids.size() == 1 ? " token\n" : " tokens\n");
}

void print_ids(const std::vector<std::int32_t>& ids) {
  for (const auto& id : ids) std::cout << (&id == ids.data() ? "" : " ") << id;
  std::cout << '\n';
}

void print_json(const Tokenizer& tokenizer, const Encoding& encoding) {
  wire::JsonWriter writer(wire::NonFinite::refuse);
  writer.begin_object();
  writer.key("ids");
  writer.integers(encoding.ids);
  writer.key("tokens");
  writer.begin_array();
  for (const auto id : encoding.ids) writer.string(tokenizer.id_to_token(id).value_or(""));
  writer.end_array();
  writer.key("offsets");
  writer.begin_array();
  for (const auto& [begin, end] : encoding.offsets) {
    writer.begin_array();
    writer.integer(std::uint64_t{begin});
    writer.integer(std::uint64_t{end});
    writer.end_array();
  }
  writer.end_array();
  writer.end_object();
  std::cout << std::move(writer).take() << '\n';
}

int run_encode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const EncodeOptions encode = {.add_special_tokens = !options.no_special,
                                .parse_special = options.parse_special};
  const std::string text = read_input(options);
  if (options.json) {
    print_json(tokenizer, tokenizer.encode_with_offsets(text, encode));
    return kOk;
  }
  const auto ids = tokenizer.encode(text, encode);
  if (options.ids) {
    print_ids(ids);
  } else if (has_colours()) {
    print_coloured(tokenizer, ids);
  } else {
    print_lines(tokenizer, ids);
  }
  return kOk;
}

Result<void> run_decode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  TINKER_TRY(const auto ids, parse_ids(read_input(options)));
  for (const auto id : ids) {
    if (tokenizer.id_to_token(id)) continue;
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("the vocabulary has no token ", id)};
  }
  const std::string text = tokenizer.decode(ids, {.skip_special_tokens = options.no_special});
  if (!options.json) {
    std::cout << text;
    if (::isatty(STDOUT_FILENO) == 1) std::cout << '\n';
    return {};
  }
  wire::JsonWriter writer(wire::NonFinite::refuse);
  writer.begin_object();
  writer.key("text");
  writer.string(text);
  writer.end_object();
  std::cout << std::move(writer).take() << '\n';
  return {};
}

int run_tokenize(const TokenizeOptions& options) {
  std::ios::sync_with_stdio(false);
  const auto fail = [](const Error& error) {
    std::cerr << "tinker tokenize: " << error.to_string() << '\n';
    return kRefused;
  };
  const auto tokenizer = load(options);
  if (!tokenizer.ok()) return fail(tokenizer.error());
  if (!options.decode) return run_encode(options, *tokenizer);
  const auto decoded = run_decode(options, *tokenizer);
  return decoded.ok() ? kOk : fail(decoded.error());
}

}  // namespace

void add_tokenize_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Turn text into the tokens of a model, and back");
  auto* model = command->add_option("--model", options->model, "Model id, e.g. Qwen/Qwen3-8B");
  command->add_option("--revision", options->revision, "Branch, tag or commit of the model")
      ->needs(model);
  auto* path = command->add_option("--tokenizer",
                                   options->path,
                                   "Folder, tokenizer.json, tiktoken or GGUF file on this machine");
  path->excludes(model);
  auto* ids = command->add_flag("--ids", options->ids, "Print the ids alone, on one line");
  command->add_flag("--json", options->json, "Print one JSON object on one line")->excludes(ids);
  command->add_flag("--decode", options->decode, "The input is token ids; print their text")
      ->excludes(ids);
  command->add_flag("--no-special",
                    options->no_special,
                    "Add no begin or end token; with --decode, leave special tokens out");
  command->add_flag("--parse-special",
                    options->parse_special,
                    "Take \"<|im_end|>\" and the like in the text for the control tokens");
  command->add_option("TEXT", options->text, "Text, or ids with --decode; else standard input");
  command->footer(
      "Prints a line for each token, its id and its text; on a terminal the text in colours.\n"
      "Files of --model are kept where the Python tools keep them (HF_HOME) and come from\n"
      "HF_ENDPOINT, with HF_TOKEN where a repository is private or gated.");
  command->callback([options, &status] {
    if (options->model.empty() && options->path.empty()) {
      throw CLI::RequiredError("--model or --tokenizer");
    }
    status = run_tokenize(*options);
    if (!std::cout.flush()) {
      std::cerr << "tinker tokenize: standard output could not be written\n";
      status = kRefused;
    }
  });
}

}  // namespace tinker::cli
