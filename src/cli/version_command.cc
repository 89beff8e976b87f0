#include <iostream>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "tinker/version.h"

namespace tinker::cli {

void add_version_command(CLI::App& app, int& status) {
  app.add_subcommand("version", "Show the version of this program and of the protocol it speaks")
      ->callback([&status] {
        std::cout << "tinker " << version() << " (C++, protocol " << protocol_version() << ")\n";
        status = kOk;
      });
}

}  // namespace tinker::cli
