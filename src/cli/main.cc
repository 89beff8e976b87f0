#include <exception>
#include <iostream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Train and sample language models with Tinker.", "tinker");
  app.require_subcommand(1);
  int status = tinker::cli::kOk;
  tinker::cli::add_bench_command(app, status);
  tinker::cli::add_conform_command(app, status);
  tinker::cli::add_convert_command(app, status);
  tinker::cli::add_data_command(app, status);
  tinker::cli::add_render_command(app, status);
  tinker::cli::add_serve_command(app, status);
  tinker::cli::add_tokenize_command(app, status);
  tinker::cli::add_version_command(app, status);
  tinker::cli::add_wire_command(app, status);
  const std::string_view first = argc > 1 ? argv[1] : "";
  const auto is_first = [&](const CLI::App* command) { return command->get_name() == first; };
  if (!first.empty() && first.front() != '-' && app.get_subcommands(is_first).empty()) {
    std::cerr << "tinker: unknown command '" << first
              << "', expected one of those that 'tinker --help' shows\n";
    return tinker::cli::kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == 0;
    app.exit(error);
    return is_help ? tinker::cli::kOk : tinker::cli::kUsage;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // out of memory, a closed terminal
    std::cerr << "tinker: " << error.what() << '\n';
    return tinker::cli::kRefused;
  }
}
