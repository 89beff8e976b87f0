#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "engine/llama2c.h"
#include "engine/merged_model.h"
#include "engine/model_files.h"
#include "formats/mapped_file.h"

namespace tinker::cli {
namespace {

struct ConvertOptions {
  std::string from = {};
  std::string to = {};
  EnginePrecision precision = EnginePrecision::f32;
};

Result<void> convert(const ConvertOptions& options) {
  if (!std::filesystem::is_directory(options.from)) {
    TINKER_TRY(const auto file, formats::MappedFile::open(options.from));
    // llama2.c's files do not say what they are.
    if (!file.bytes().starts_with("GGUF")) {
      auto model = engine::Llama2c::parse(file.bytes());
      if (!model.ok()) return std::move(model).error().with_context(options.from);
      return model->write(options.to, options.precision);
    }
  }
  TINKER_TRY(const auto base, engine::ModelFiles::open(options.from));
  engine::ThreadPool threads(std::max(1U, std::thread::hardware_concurrency()));
  return engine::write_merged_model(
      options.to, {.base = base, .source = options.from, .precision = options.precision}, threads);
}

}  // namespace

void add_convert_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command =
      app.add_subcommand("convert", "Make a Hugging Face folder of a model on this machine");
  command->add_option("FROM", options->from, "GGUF file, file of llama2.c, or Hugging Face folder")
      ->required();
  command->add_option("FOLDER", options->to, "Where to; must not exist, or be empty")->required();
  command->add_option("--precision", options->precision, "f32 (default) or bf16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, EnginePrecision>{
          {"f32", EnginePrecision::f32}, {"bf16", EnginePrecision::bf16}}));
  command->callback([options, &status] {
    const auto done = convert(*options);
    status = done.ok() ? kOk : kRefused;
    if (!done.ok()) std::cerr << "tinker convert: " << done.error().to_string() << '\n';
  });
}

}  // namespace tinker::cli
