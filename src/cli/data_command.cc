#include <algorithm>
#include <bit>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/data_report.h"
#include "cli/renderer_choice.h"
#include "tinker/renderer.h"
#include "tinker/training_data.h"

namespace tinker::cli {
namespace {

struct DataCommand {
  RendererChoice choice = {};
  std::vector<std::string> files = {};
  std::string train_on = {};
  std::optional<std::size_t> max_length = {};
  bool json = false;
};

/// Reads rows one by one and keeps what the report needs.
class DataCheck {
 public:
  DataCheck(std::optional<Renderer> renderer,
            std::optional<TrainOnWhat> train_on,
            std::optional<std::size_t> max_length)
      : renderer_(std::move(renderer)), options_{.train_on = train_on} {
    report_.is_rendered = renderer_.has_value();
    report_.max_length = max_length;
  }

  Result<void> add_file(const std::string& path) {
    TINKER_TRY(const auto file, JsonlFile::open(path));
    report_.files.push_back(path);
    for (std::size_t i = 0; i < file.size(); ++i) {
      ++report_.rows;
      const auto row = file.row(i);
      if (!row.ok()) {
        note_bad(row.error());
        continue;
      }
      count_kind(*row);
      if (auto added = add_data(*row, file.place_of(i)); !added.ok()) {
        note_bad(std::move(added).error().with_context(file.place_of(i)));
      }
    }
    return {};
  }

  [[nodiscard]] const DataReport& report() const noexcept { return report_; }

 private:
  void note_bad(Error error) {
    ++report_.bad;
    if (!report_.first_bad) report_.first_bad = std::move(error);
  }

  void count_kind(const DataRow& row) {
    auto& count = std::holds_alternative<ConversationRow>(row) ? report_.conversations
                  : std::holds_alternative<PreferenceRow>(row) ? report_.preferences
                                                               : report_.texts;
    ++count;
  }

  Result<void> add_data(const DataRow& row, const std::string& place) {
    if (!renderer_) return {};
    TINKER_TRY(auto data, to_data(row, *renderer_, options_));
    bool is_truncated = false;
    for (const auto& datum : data) {
      TINKER_TRY(const auto inputs, datum.model_input.length());
      const auto length = static_cast<std::size_t>(inputs) + 1;  // the last token is no input
      ++report_.lengths[static_cast<std::size_t>(std::bit_width(length))];
      is_truncated = is_truncated || length > report_.max_length.value_or(length);
    }
    if (is_truncated) {
      auto options = options_;
      options.datum.max_length = report_.max_length;
      TINKER_TRY(data, to_data(row, *renderer_, options));
      ++report_.truncated_rows;
    }
    const auto trained = report_.data.trained;
    for (const auto& datum : data) report_.data.add(datum);
    if (report_.data.trained == trained && report_.untrained_rows++ == 0) {
      report_.first_untrained = place;
    }
    return {};
  }

  std::optional<Renderer> renderer_;
  RenderOptions options_;
  DataReport report_;
};

Result<int> run_check(const DataCommand& command) {
  std::optional<TrainOnWhat> mode;
  if (!command.train_on.empty()) {
    TINKER_TRY(mode, parse_train_on_what(command.train_on));
  }
  std::optional<Renderer> renderer;
  if (command.choice.is_made()) {
    TINKER_TRY(auto loaded, load_renderer(command.choice));
    renderer = std::move(loaded);
  }
  DataCheck check(std::move(renderer), mode, command.max_length);
  for (const auto& file : command.files) TINKER_TRY(check.add_file(file));
  const auto& report = check.report();
  std::cout << (command.json ? report_json(report) + "\n" : report_text(report));
  return report.bad > 0 ? kRefused : kOk;
}

}  // namespace

void add_data_command(CLI::App& app, int& status) {
  CLI::App* data = app.add_subcommand("data", "Look at files of training data");
  data->require_subcommand(1);
  const auto options = std::make_shared<DataCommand>();
  CLI::App* command = data->add_subcommand("check", "Read every row and say what is in them");
  add_renderer_options(*command, options->choice);
  command->add_option("--train-on",
                      options->train_on,
                      "What is trained; default all_assistant_messages, and of preferences "
                      "last_assistant_message");
  command
      ->add_option("--max-length", options->max_length, "Tokens of an example, the rest is cut off")
      ->check(CLI::Range(std::size_t{2}, std::size_t{1} << 40U));
  command->add_flag("--json", options->json, "Print one JSON object on one line");
  command->add_option("FILE", options->files, "Files of JSON lines")->required();
  command->footer(
      "Rows are conversations, pairs of prompt and completion, preferences, or plain texts.\n"
      "Without --model or --tokenizer they are only read; with one, they are rendered as for\n"
      "training and their tokens are counted. Exit status 1: a row is bad.");
  command->callback([options, &status] {
    if (!options->choice.is_made() && !options->choice.renderer.empty()) {
      throw CLI::RequiredError("--model or --tokenizer");
    }
    std::ios::sync_with_stdio(false);
    const auto done = run_check(*options);
    status = done.ok() ? *done : kRefused;
    if (!done.ok()) std::cerr << "tinker data check: " << done.error().to_string() << '\n';
    if (!std::cout.flush()) {
      std::cerr << "tinker data check: standard output could not be written\n";
      status = kRefused;
    }
  });
}

}  // namespace tinker::cli
