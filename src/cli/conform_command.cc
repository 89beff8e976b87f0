#include <atomic>
#include <csignal>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/environment.h"
#include "cli/commands.h"
#include "conform/runner.h"
#include "http/url.h"
#include "tinker/runtime.h"
#include "transport/asio_transport.h"
#include "wire/json_writer.h"

namespace tinker::cli {
namespace {

using conform::Law;
using conform::Outcome;
using conform::Tally;
using conform::Verdict;

struct ConformOptions {
  std::string base_url = {};
  std::string api_key = {};
  std::string model = {};
  std::string ca_file = {};
  std::vector<std::string> only = {};
  double tolerance = 0.02;
  bool is_fast = false;
  bool is_list = false;
  bool is_json = false;
};

std::atomic<bool> is_interrupted = false;  // by Ctrl-C; a second one ends the program at once

void catch_interrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { is_interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

int fail(std::string_view message, int status) {
  std::cerr << "tinker conform: " << message << '\n';
  return is_interrupted ? kInterrupted : status;
}

// ---- what is printed --------------------------------------------------------------------------

std::string_view name_of(Outcome outcome) {
  return outcome == Outcome::pass ? "pass" : outcome == Outcome::fail ? "FAIL" : "skip";
}

/// An object on one line.
class JsonLine {
 public:
  JsonLine() { writer_.begin_object(); }
  JsonLine& text(std::string_view name, std::string_view value) {
    writer_.key(name);
    std::string shown(value);  // evidence may quote bytes that are no text
    for (char& c : shown) c = static_cast<unsigned char>(c) < 0x80 ? c : '?';
    writer_.string(shown);
    return *this;
  }
  JsonLine& integer(std::string_view name, std::int64_t value) {
    writer_.key(name);
    writer_.integer(value);
    return *this;
  }
  JsonLine& number(std::string_view name, double value) {
    writer_.key(name);
    writer_.number(value);
    return *this;
  }
  void print() {
    writer_.end_object();
    std::cout << std::move(writer_).take() << '\n' << std::flush;
  }

 private:
  wire::JsonWriter writer_{wire::NonFinite::as_strings};
};

void list_laws(const std::vector<Law>& laws, bool is_json) {
  for (const Law& law : laws) {
    const std::string_view cost = law.cost == conform::Cost::fast ? "fast" : "slow";
    if (is_json) {
      JsonLine().text("id", law.id).text("law", law.sentence).text("cost", cost).print();
    } else {
      std::cout << std::left << std::setw(32) << law.id << ' ' << cost << "  " << law.sentence
                << '\n';
    }
  }
}

void print_json(const Verdict& verdict) {
  JsonLine()
      .text("id", verdict.law.id)
      .text("law", verdict.law.sentence)
      .text("verdict", verdict.outcome == Outcome::fail ? "fail" : name_of(verdict.outcome))
      .text("evidence", verdict.evidence)
      .number("seconds", verdict.took.count())
      .integer("trained_tokens", verdict.spent.trained_tokens)
      .integer("sampled_tokens", verdict.spent.sampled_tokens)
      .print();
}

/// A line for each law; the evidence below where there is something to see.
void print_line(const Verdict& verdict) {
  std::cout << name_of(verdict.outcome) << "  " << std::left << std::setw(32) << verdict.law.id
            << ' ' << verdict.law.sentence << '\n';
  if (verdict.outcome != Outcome::pass) std::cout << "      " << verdict.evidence << '\n';
  std::cout.flush();
}

void print_summary(const Tally& tally, bool is_json) {
  for (const auto& each : tally.left_behind) {
    std::cerr << "tinker conform: could not be removed from the server: " << each << '\n';
  }
  if (is_json) {
    JsonLine()
        .integer("passed", tally.passed)
        .integer("failed", tally.failed)
        .integer("skipped", tally.skipped)
        .integer("trained_tokens", tally.spent.trained_tokens)
        .integer("sampled_tokens", tally.spent.sampled_tokens)
        .integer("left_behind", std::ssize(tally.left_behind))
        .print();
    return;
  }
  std::cout << '\n'
            << tally.passed << " laws hold, " << tally.failed << " are broken, " << tally.skipped
            << " could not be decided; " << tally.spent.trained_tokens << " tokens trained, "
            << tally.spent.sampled_tokens << " sampled at most\n";
}

// ---- the run ----------------------------------------------------------------------------------

Result<conform::ProbeOptions> probe_options(const ConformOptions& options, const Runtime& runtime) {
  TINKER_TRY(auto base_url, http::normalize_base_url(options.base_url));
  TINKER_TRY(auto transport,
             http::AsioTransport::create(runtime.core(), {.ca_file = options.ca_file}));
  std::string key = options.api_key;
  if (key.empty()) key = base::variable({}, "TINKER_API_KEY").value_or("");
  return conform::ProbeOptions{.transport = std::move(transport),
                               .base_url = std::move(base_url),
                               .api_key = Secret(std::move(key)),
                               .model = options.model,
                               .tolerance = options.tolerance,
                               .interrupted = &is_interrupted};
}

int run_conform(const ConformOptions& options) {
  const auto laws = conform::choose_laws(options.only, options.is_fast);
  if (!laws) return fail(laws.error().message, kUsage);
  if (options.is_list) {
    list_laws(*laws, options.is_json);
    return kOk;
  }
  catch_interrupt();
  const Runtime runtime = Runtime::start();
  auto probe_with = probe_options(options, runtime);
  if (!probe_with) return fail(probe_with.error().to_string(), kUsage);
  const auto probe = conform::Probe::open(*std::move(probe_with));
  if (!probe) return fail(probe.error().message, kRefused);
  const auto report = [&](const Verdict& verdict) {
    options.is_json ? print_json(verdict) : print_line(verdict);
  };
  const auto tally = conform::check_laws(**probe, *laws, is_interrupted, report);
  print_summary(tally, options.is_json);
  return is_interrupted ? kInterrupted : tally.failed > 0 ? kRefused : kOk;
}

}  // namespace

void add_conform_command(CLI::App& app, int& status) {
  const auto options = std::make_shared<ConformOptions>();
  CLI::App* command =
      app.add_subcommand("conform", "Check that a server keeps the laws of a Tinker server");
  command->add_option("--base-url", options->base_url, "The server to check");
  command->add_option("--api-key", options->api_key, "Its key (default: TINKER_API_KEY)");
  command->add_option("--model", options->model, "Base model (default: the first to train)");
  command->add_option("--only", options->only, "Check this law or group; repeatable");
  command->add_flag("--fast", options->is_fast, "Leave out laws that wait or send much");
  command->add_flag("--list", options->is_list, "List the laws, check nothing");
  command->add_flag(
      "--json", options->is_json, "One JSON object on a line for each law, and a last one");
  command
      ->add_option("--tolerance",
                   options->tolerance,
                   "How far apart two logprobs of a token may be, in nats (default 0.02, what "
                   "bfloat16 needs)")
      ->check(CLI::Range(1e-9, 1.0));
  command
      ->add_option("--ca-file", options->ca_file, "Certificates to trust, instead of the system's")
      ->check(CLI::ExistingFile);
  command->footer(
      "Ends with 0 when no law is broken, with 1 when one is. What was made on the server "
      "is deleted, also after Ctrl-C.");
  command->callback([options, &status] {
    if (!options->is_list && options->base_url.empty()) throw CLI::RequiredError("--base-url");
    status = run_conform(*options);
  });
}

}  // namespace tinker::cli
