#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/strings.h"
#include "cli/bench_load.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "tinker/rng.h"
#include "tinker/service_client.h"

namespace tinker::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};
constexpr std::chrono::seconds kGoodbye{5};

struct BenchOptions {
  std::string base_url = {};
  std::string model = {};
  std::string ca_file = {};
  std::uint64_t calls = 0;
  std::size_t in_flight = 0;
  std::uint64_t warmup = 0;
  std::size_t prompt_tokens = 128;
  std::int64_t max_tokens = 64;
  std::size_t data = 8;
  std::int64_t rank = 32;
  std::int32_t vocabulary = 1000;
  std::uint64_t seed = 1;
  double timeout_s = 0;
  bool is_training = false;
  bool is_json = false;
};

// ---- the calls --------------------------------------------------------------------------------

class Tokens {
 public:
  explicit Tokens(const BenchOptions& options)
      : rng_(options.seed),
        count_(options.prompt_tokens),
        bound_(static_cast<std::uint64_t>(options.vocabulary)) {}

  std::vector<std::int32_t> next() {
    std::vector<std::int32_t> out(count_);
    for (auto& token : out) token = static_cast<std::int32_t>(rng_.below(bound_));
    return out;
  }

 private:
  Rng rng_;
  std::size_t count_;
  std::uint64_t bound_;
};

/// Every prompt is another one, so that no cache of the server makes it look fast.
BenchLoad::Call sample_calls(SamplingClient client, const BenchOptions& options) {
  const SamplingParams params = {.max_tokens = options.max_tokens};
  return [client = std::move(client), params, tokens = Tokens(options)](
             BenchLoad::Ticket ticket) mutable {
    (void)client.sample(ModelInput::from_tokens(tokens.next()), params)
        .then([ticket = std::move(ticket)](const Result<SampleResponse>& answer) {
          ticket.end(answer.ok() ? nullptr : &answer.error());
        });
  };
}

std::vector<Datum> make_batch(const BenchOptions& options) {
  Tokens tokens(options);
  std::vector<Datum> batch(options.data);
  for (auto& datum : batch) {
    auto input = tokens.next();
    std::vector<std::int64_t> targets(input.begin() + 1, input.end());
    targets.push_back(0);
    datum = {.model_input = ModelInput::from_tokens(std::move(input)),
             .loss_fn_inputs = {{"target_tokens", std::move(targets)},
                                {"weights", std::vector<float>(options.prompt_tokens, 1.0F)}}};
  }
  return batch;
}

/// A step has ended when both of its requests have.
Future<void> train_once(TrainingClient client,
                        std::shared_ptr<const std::vector<Datum>> batch,
                        BenchLoad::Ticket ticket) {
  auto step = client.train_step(*batch, LossFn::cross_entropy, AdamParams());
  const auto gradients = co_await step.forward_backward;
  const auto update = co_await step.optim_step;
  ticket.end(!gradients.ok() ? &gradients.error() : !update.ok() ? &update.error() : nullptr);
  co_return Result<void>();
}

BenchLoad::Call train_calls(TrainingClient client, const BenchOptions& options) {
  const auto batch = std::make_shared<const std::vector<Datum>>(make_batch(options));
  return [client = std::move(client), batch](BenchLoad::Ticket ticket) {
    (void)train_once(client, batch, std::move(ticket));
  };
}

// ---- waiting ----------------------------------------------------------------------------------

std::atomic<bool> is_interrupted = false;  // by Ctrl-C; a second one ends the program at once

void catch_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { is_interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
}

/// Waits for a future that has no deadline of its own; nothing when Ctrl-C came first. Calls `tick`
/// meanwhile.
template <typename T, typename Tick>
std::optional<Result<T>> wait(Future<T>& future, Tick tick) {
  while (!is_interrupted) {
    auto result = future.get(kTick);
    if (result.ok() || result.error().code != ErrorCode::deadline_exceeded) return result;
    tick();
  }
  return std::nullopt;
}

template <typename T>
Result<T> wait(Future<T> future) {
  if (auto result = wait(future, [] {})) return *std::move(result);
  return Error{.code = ErrorCode::cancelled, .message = "interrupted"};
}

/// One line on a terminal, written over and over.
class Progress {
 public:
  Progress(const BenchLoad& load, std::uint64_t calls, const char* what)
      : load_(load), calls_(calls), what_(what), is_shown_(::isatty(STDERR_FILENO) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (is_shown_) std::cerr << "\r\x1b[K" << std::flush;
  }
  void show() const {
    if (!is_shown_) return;
    std::cerr << "\r\x1b[K" << load_.ended() << " of " << calls_ << ' ' << what_ << std::flush;
  }

 private:
  const BenchLoad& load_;
  std::uint64_t calls_;
  const char* what_;
  bool is_shown_;
};

// ---- the run ----------------------------------------------------------------------------------

/// Thousands of requests over HTTP/1.1 need as many connections.
void raise_descriptor_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<std::string> choose_model(const ServiceClient& service, const BenchOptions& options) {
  if (!options.model.empty()) return options.model;
  TINKER_TRY(const auto capabilities, wait(service.get_server_capabilities()));
  for (const auto& model : capabilities.supported_models) {
    const bool fits = (options.is_training ? model.trainable : model.sampleable).value_or(true);
    if (model.model_name && fits) return *model.model_name;
  }
  return Error{.code = ErrorCode::invalid_response,
               .message = "the server names no model for this: give one with --model"};
}

Result<BenchLoad::Call> open_client(const ServiceClient& service, const BenchOptions& options) {
  TINKER_TRY(auto model, choose_model(service, options));
  CallOptions call = {};
  if (options.timeout_s > 0) {
    call.deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(options.timeout_s));
  }
  if (options.is_training) {
    TINKER_TRY(const auto client,
               wait(service.create_lora_training_client(
                   std::move(model), {.rank = options.rank, .seed = Seed(options.seed)})));
    return train_calls(client.with(std::move(call)), options);
  }
  TINKER_TRY(const auto client,
             wait(service.create_sampling_client({.base_model = std::move(model)})));
  return sample_calls(client.with(std::move(call)), options);
}

/// Nothing when Ctrl-C ended the run before it was measured.
std::optional<BenchReport> run_load(const std::shared_ptr<BenchLoad>& load,
                                    const BenchOptions& options) {
  if (options.warmup > 0) {
    auto warmup = load->run(options.warmup);
    const Progress progress(*load, options.warmup, "calls of the warm-up");
    if (!wait(warmup, [&] { progress.show(); })) {
      load->stop();
      return std::nullopt;
    }
  }
  const auto before = ProcessUsage::now();
  auto running = load->run(options.calls);
  std::optional<Result<BenchTally>> tally;
  {
    const Progress progress(*load, options.calls, "calls");
    tally = wait(running, [&] { progress.show(); });
  }
  if (!tally) {
    load->stop();
    tally = running.get();
  }
  if (!tally->ok()) return std::nullopt;
  const auto after = ProcessUsage::now();
  return BenchReport{.tally = **std::move(tally),
                     .cpu_seconds = after.cpu_seconds - before.cpu_seconds,
                     .peak_rss_mib = after.peak_rss_mib};
}

int fail(const Error& error, int status) {
  std::cerr << "tinker bench: " << error.to_string() << '\n';
  return is_interrupted ? kInterrupted : status;
}

/// The first warnings go to standard error, unless `TINKER_LOG` says what does: of thousands of
/// calls many may fail alike, and the report counts them.
Logger command_logger() {
  constexpr int kShown = 3;
  if (base::variable({}, "TINKER_LOG")) return Logger::from_environment();
  const auto shown = std::make_shared<std::atomic<int>>(0);
  const auto write = [shown](LogLevel, std::string_view line) {
    const int before = shown->fetch_add(1);
    if (before < kShown) std::cerr << base::concat("tinker bench: ", line, "\n");
    if (before == kShown)
      std::cerr << "tinker bench: further warnings are not shown; TINKER_LOG=warn shows all\n";
  };
  return {write, LogLevel::warn};
}

int run_bench(const BenchOptions& options) {
  raise_descriptor_limit();
  catch_interrupt();
  const Runtime runtime = Runtime::start({.logger = command_logger()});
  const auto service = ServiceClient::connect({.base_url = options.base_url,
                                               .transport_options = {.ca_file = options.ca_file},
                                               .runtime = runtime});
  if (!service) return fail(service.error(), kUsage);
  auto call = open_client(*service, options);
  if (!call) return fail(call.error(), kRefused);
  const auto load =
      std::make_shared<BenchLoad>(runtime.callbacks(), options.in_flight, *std::move(call));
  const auto report = run_load(load, options);
  load->stop();
  if (report) std::cout << (options.is_json ? report->to_json() + "\n" : report->to_table());
  const bool is_failure = !report || report->tally.latencies_ms.empty();
  const auto reason = is_interrupted ? SessionFinishReason::interrupted
                      : is_failure   ? SessionFinishReason::errored
                                     : SessionFinishReason::success;
  (void)service->close(reason).get(kGoodbye);
  return is_interrupted ? kInterrupted : is_failure ? kRefused : kOk;
}

// ---- the command line -------------------------------------------------------------------------

void add_common_options(CLI::App& command, BenchOptions& options) {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  command.add_option("--base-url", options.base_url, "The server to load")->required();
  command.add_option("--calls", options.calls, "How many calls to make")
      ->required()
      ->check(CLI::Range(1, kMost));
  command.add_option("--in-flight", options.in_flight, "How many of them at a time, at most")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--warmup", options.warmup, "Calls before those that count (default 0)")
      ->check(CLI::Range(0, kMost));
  command.add_option("--model", options.model, "Base model (default: the server's first)");
  command.add_option("--vocab", options.vocabulary, "Tokens are drawn below this (default 1000)")
      ->check(CLI::Range(1, kMost));
  command.add_option("--seed", options.seed, "Of the tokens (default 1)");
  command.add_option("--timeout", options.timeout_s, "Seconds for one call (default: no limit)")
      ->check(CLI::Range(0.001, 1e6));
  command
      .add_option("--ca-file", options.ca_file, "Certificates to trust, instead of the system's")
      ->check(CLI::ExistingFile);
  command.add_flag("--json", options.is_json, "Print one JSON object on one line");
  command.footer(
      "Failures that may pass are repeated, as the library always does; what counts as an error is "
      "what a caller would see.");
}

}  // namespace

void add_bench_command(CLI::App& app, int& status) {
  constexpr int kMostTokens = 10'000'000;
  CLI::App* bench = app.add_subcommand("bench", "Load a server and measure how it holds up");
  bench->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, BenchOptions defaults) {
    const auto options = std::make_shared<BenchOptions>(std::move(defaults));
    CLI::App* command = bench->add_subcommand(name, what);
    add_common_options(*command, *options);
    command->callback([options, &status] { status = run_bench(*options); });
    return std::pair(command, options);
  };
  {
    const auto [command, options] = add("sample", "Draw samples; each is a call", {});
    command->add_option("--prompt-tokens", options->prompt_tokens, "Of a prompt (default 128)")
        ->check(CLI::Range(1, kMostTokens));
    command->add_option("--max-tokens", options->max_tokens, "Of a sample (default 64)")
        ->check(CLI::Range(1, kMostTokens));
  }
  {
    const auto [command, options] =
        add("train",
            "Train a new model; a call is a step, forward_backward and optim_step",
            {.is_training = true});
    command->add_option("--prompt-tokens", options->prompt_tokens, "Of a datum (default 128)")
        ->check(CLI::Range(1, kMostTokens));
    command->add_option("--data", options->data, "Data of a step (default 8)")
        ->check(CLI::Range(1, kMostTokens));
    command->add_option("--rank", options->rank, "Of the adapter (default 32)")
        ->check(CLI::Range(1, 65'536));
  }
}

}  // namespace tinker::cli
