#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/durations.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/serve_output.h"
#include "server/check_options.h"
#include "server/engine_facts.h"
#include "server/key_file.h"
#include "server/limits.h"
#include "server/model_fetch.h"
#include "tinker/local_server.h"

namespace tinker::cli {
namespace {

struct ServeOptions {
  std::vector<std::string> models = {};
  std::vector<std::string> tokenizers = {};
  std::vector<std::string> adapters = {};
  std::vector<std::string> flags = {};
  std::vector<std::string> limits = {};
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string unix_socket = {};
  std::string public_url = {};
  std::string data_dir = {};
  std::string api_key_file = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  std::size_t threads = 0;
  std::int64_t session_timeout = 300;
  CLI::AsSizeValue::result_t memory = 0;
  EnginePrecision precision = EnginePrecision::bf16;
  bool json = false;
  bool offline = false;
  std::optional<bool> durable = {};
  std::size_t snapshot_steps = 64;
};

/// "NAME=VALUE" as its two parts.
Result<std::pair<std::string, std::string>> split(std::string_view option, std::string_view text) {
  const auto at = text.find('=');
  if (at == std::string_view::npos || at == 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat(option, ": expected NAME=VALUE, found '", text, "'")};
  }
  return std::pair(std::string(text.substr(0, at)), std::string(text.substr(at + 1)));
}

Result<std::vector<ServedModel>> models_of(const ServeOptions& options) {
  std::vector<ServedModel> out;
  for (const auto& text : options.models) {
    if (text.find('=') == std::string::npos) {
      out.push_back({.name = text});  // of the hub
      continue;
    }
    TINKER_TRY(auto pair, split("--model", text));
    out.push_back({.name = std::move(pair.first), .source = std::move(pair.second)});
  }
  for (const auto& text : options.tokenizers) {
    TINKER_TRY(const auto pair, split("--tokenizer", text));
    bool is_known = false;
    for (auto& model : out) {
      if (model.name != pair.first) continue;
      model.tokenizer = pair.second;
      is_known = true;
    }
    if (!is_known) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat("--tokenizer: there is no model '", pair.first, "'")};
    }
  }
  return out;
}

/// Keys from the file, else from TINKER_SERVER_KEYS, which has the same lines.
Result<std::vector<ServedKey>> keys_of(const ServeOptions& options) {
  if (!options.api_key_file.empty()) return server::read_key_file(options.api_key_file);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread runs yet.
  if (const char* text = std::getenv("TINKER_SERVER_KEYS")) return server::parse_key_file(text);
  return std::vector<ServedKey>();
}

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warn: return "warning";
    case LogLevel::error: return "error";
  }
  return "error";
}

/// The signals that end a server or make it read its certificate again; blocked in all threads.
sigset_t wanted_signals() {
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGINT);
  sigaddset(&out, SIGTERM);
  sigaddset(&out, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &out, nullptr);
  return out;
}

/// From now on Ctrl-C ends the process at once, as it does other programs.
void let_interrupts_end_it() {
  std::signal(SIGINT, SIG_DFL);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
}

/// Until a signal says stop. Yields the exit status.
int wait_for_end(const LocalServer& server,
                 std::chrono::milliseconds drain_time,
                 const sigset_t& signals,
                 const ServeOutput& output) {
  while (true) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal == SIGHUP) {
      const auto reloaded = server.reload_certificates();
      output.line(reloaded.ok() ? "info" : "error",
                  reloaded.ok() ? "certificates read again" : reloaded.error().to_string());
      continue;
    }
    output.line(
        "info",
        base::concat("stopping: what runs has ", base::seconds_text(drain_time), " to finish"));
    let_interrupts_end_it();
    const auto stopped = server.stop(drain_time);
    if (!stopped.ok()) output.line("error", stopped.error().to_string());
    return signal == SIGINT ? kInterrupted : stopped.ok() ? kOk : kRefused;
  }
}

/// The server's log. While the server starts, its lines are held back: they follow the event that
/// says it is ready, also where runs of an earlier life go on. Thread-safe.
class ServeLog {
 public:
  explicit ServeLog(const ServeOutput& output) : output_(output) {}

  void write(LogLevel level, std::string_view message) {
    const std::scoped_lock lock(mutex_);
    if (is_open_) return output_.line(level_name(level), message);
    held_.emplace_back(level, message);
  }
  void hold() {
    const std::scoped_lock lock(mutex_);
    is_open_ = false;
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    is_open_ = true;
    for (const auto& [level, message] : held_) output_.line(level_name(level), message);
    held_.clear();
  }

 private:
  const ServeOutput& output_;
  std::mutex mutex_ = {};
  bool is_open_ = true;
  std::vector<std::pair<LogLevel, std::string>> held_ = {};
};

Result<LocalServerOptions> server_options(const ServeOptions& options,
                                          const ServeOutput& output,
                                          const std::shared_ptr<ServeLog>& log) {
  LocalServerOptions out = {.data_dir = options.data_dir,
                            .host = options.host,
                            .port = options.port,
                            .unix_socket = options.unix_socket,
                            .tls_certificate = options.tls_cert,
                            .tls_key = options.tls_key,
                            .threads = options.threads,
                            .memory_bytes = static_cast<std::size_t>(options.memory),
                            .precision = options.precision,
                            .durable = options.durable.value_or(!options.data_dir.empty()),
                            .snapshot_steps = options.snapshot_steps,
                            .public_url = options.public_url};
  if (options.offline) out.hub.is_offline = true;
  out.on_fetch = [&output](const FetchProgress& progress) { output.fetched(progress); };
  out.session_timeout = std::chrono::seconds(options.session_timeout);
  TINKER_TRY(out.models, models_of(options));
  TINKER_TRY(out.keys, keys_of(options));
  for (const auto& text : options.adapters) {
    TINKER_TRY(auto pair, split("--adapter", text));
    out.adapters.push_back({.name = std::move(pair.first), .folder = std::move(pair.second)});
  }
  for (const auto& text : options.flags) {
    TINKER_TRY(auto pair, split("--flag", text));
    out.flags.insert(std::move(pair));
  }
  for (const auto& text : options.limits) {
    TINKER_TRY(const auto pair, split("--limit", text));
    TINKER_TRY(server::set_limit(out.limits, pair.first, pair.second));
  }
  out.logger =
      Logger([log](LogLevel level, std::string_view message) { log->write(level, message); },
             LogLevel::info);
  return out;
}

Result<int> serve(const ServeOptions& options, const ServeOutput& output) {
  std::signal(SIGPIPE, SIG_IGN);  // it serves on when nobody reads its standard output any more
  const auto log = std::make_shared<ServeLog>(output);
  TINKER_TRY(auto prepared, server_options(options, output, log));
  TINKER_TRY(server::check_options(prepared));
  TINKER_TRY(server::fetch_models(prepared));  // Ctrl-C ends it at once: what came stays
  const sigset_t signals = wanted_signals();   // before any thread of the server starts
  const auto drain_time = prepared.limits.drain_time;
  TINKER_TRY(const auto engine, server::engine_facts(prepared));
  const ServeOutput::Setup setup = {
      .models = prepared.models, .engine = engine, .has_keys = !prepared.keys.empty()};
  const bool is_in_clear = server::is_in_clear(prepared);
  log->hold();
  const auto server = LocalServer::start(std::move(prepared));
  if (server.ok()) output.ready(*server, setup);
  log->release();
  if (!server.ok()) return server.error();
  if (is_in_clear) {
    output.line("warning",
                "keys and data travel unencrypted: give --tls-cert and --tls-key, or a proxy in "
                "front that has them");
  }
  return wait_for_end(*server, drain_time, signals, output);
}

/// What `--limit` takes, as rows of a table.
void print_limits() {
  std::cout << "| limit | default | what it bounds |\n|---|---|---|\n";
  const LocalServerLimits defaults;
  for (const auto& row : server::limit_rows()) {
    std::cout << base::concat(
        "| `", row.name, "` | ", server::limit_text(defaults, row), " | ", row.sentence, " |\n");
  }
}

void add_models(CLI::App& app, const std::shared_ptr<ServeOptions>& options) {
  app.add_option("-m,--model",
                 options->models,
                 "NAME=PATH of a Hugging Face folder or GGUF file, "
                 "NAME=random:LAYERSxDIM,vocab=N, or ID or NAME=ID of a model on the hub, "
                 "which is fetched unless the cache of the Python tools has it; repeatable")
      ->required();
  app.add_option(
      "--tokenizer", options->tokenizers, "NAME=PATH: another tokenizer for a model; repeatable");
  app.add_option("--adapter",
                 options->adapters,
                 "NAME=FOLDER of an adapter in PEFT's layout, to sample from as "
                 "tinker://imported/sampler_weights/NAME; repeatable");
}

void add_address(CLI::App& app, const std::shared_ptr<ServeOptions>& options) {
  app.add_option("--host", options->host, "Address to listen at; any but loopback needs keys")
      ->capture_default_str();
  app.add_option("-p,--port", options->port, "Port; 0 takes a free one")->capture_default_str();
  app.add_option("--unix-socket", options->unix_socket, "Listen at a Unix socket instead");
  app.add_option("--public-url",
                 options->public_url,
                 "What clients call the server where a proxy is in front of it, such as "
                 "https://tinker.example; links begin with it");
  app.add_option("--api-key-file",
                 options->api_key_file,
                 "Lines 'OWNER KEY'; absent: TINKER_SERVER_KEYS, or no keys");
  app.add_option("--tls-cert", options->tls_cert, "Certificate chain (PEM); SIGHUP reads it again");
  app.add_option("--tls-key", options->tls_key, "Its private key (PEM)");
}

void add_engine(CLI::App& app, const std::shared_ptr<ServeOptions>& options) {
  app.add_option("--data-dir",
                 options->data_dir,
                 "Folder of checkpoints and catalogue; absent: a temporary one");
  app.add_option("--memory",
                 options->memory,
                 "For models and their work, such as 8GB; absent: what the machine has")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--threads", options->threads, "Of the engine; 0: one for each processor")
      ->capture_default_str();
  app.add_option("--dtype", options->precision, "bf16 or f32: number format of the matrix products")
      ->transform(CLI::CheckedTransformer(std::map<std::string, EnginePrecision>{
          {"bf16", EnginePrecision::bf16}, {"f32", EnginePrecision::f32}}))
      ->default_str("bf16");
  app.add_option("--session-timeout",
                 options->session_timeout,
                 "Seconds after the last heartbeat of a session until it ends")
      ->capture_default_str();
}

void add_behaviour(CLI::App& app, const std::shared_ptr<ServeOptions>& options) {
  app.add_option("--flag",
                 options->flags,
                 "NAME=on, NAME=off or NAME=NUMBER: what clients are told; repeatable");
  app.add_option("--limit",
                 options->limits,
                 "NAME=VALUE, such as json_bytes=16MiB or poll_time=20s; repeatable");
  app.add_flag_callback(
      "--limits",
      [] {
        print_limits();
        throw CLI::Success();
      },
      "Print the limits, what they bound and their defaults, and exit");
  // `add_flag` would set an optional without the flag, too.
  app.add_flag_function(
      "--durable,!--no-durable",
      [options](std::int64_t count) { options->durable = count > 0; },
      "Training runs survive the server (default with --data-dir)");
  app.add_option("--snapshot-steps",
                 options->snapshot_steps,
                 "Steps of a durable run after which its state is written")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag(
      "--offline", options->offline, "Fetch nothing from the hub, as HF_HUB_OFFLINE=1 says");
}

}  // namespace

void add_serve_command(CLI::App& app, int& status) {
  auto* const command =
      app.add_subcommand("serve", "Serve models on this machine to any Tinker client.");
  const auto options = std::make_shared<ServeOptions>();
  add_models(*command, options);
  add_address(*command, options);
  add_engine(*command, options);
  add_behaviour(*command, options);
  command->add_flag("--json", options->json, "Write events as JSON, one a line");
  command->callback([options, &status] {
    const ServeOutput output(options->json);
    const auto result = serve(*options, output);
    if (!result.ok()) output.refused(result.error());
    status = result.ok() ? *result : kRefused;
  });
}

}  // namespace tinker::cli
