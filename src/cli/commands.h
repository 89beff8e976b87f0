#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace tinker::cli {

/// What the command ends with.
inline constexpr int kOk = 0;
inline constexpr int kRefused = 1;        ///< The input was understood and refused.
inline constexpr int kUsage = 2;          ///< The command line itself was wrong.
inline constexpr int kInterrupted = 130;  ///< By Ctrl-C, as shells have it.

// Each adds its subcommand to `app` and leaves the exit status in `status` when it ran.
void add_bench_command(CLI::App& app, int& status);
void add_conform_command(CLI::App& app, int& status);
void add_convert_command(CLI::App& app, int& status);
void add_data_command(CLI::App& app, int& status);
void add_render_command(CLI::App& app, int& status);
void add_serve_command(CLI::App& app, int& status);
void add_tokenize_command(CLI::App& app, int& status);
void add_version_command(CLI::App& app, int& status);
void add_wire_command(CLI::App& app, int& status);

}  // namespace tinker::cli
