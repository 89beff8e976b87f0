#include "cli/serve_output.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "base/strings.h"
#include "tinker/version.h"
#include "wire/json_writer.h"

namespace tinker::cli {

namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr auto kBarPause = std::chrono::milliseconds(100);
constexpr auto kLinePause = std::chrono::seconds(5);
constexpr std::size_t kBarWidth = 30;
constexpr std::uint64_t kMega = 1'000'000;

using Members = std::initializer_list<std::pair<std::string_view, std::string_view>>;
using Numbers = std::initializer_list<std::pair<std::string_view, std::uint64_t>>;
using Lists = std::initializer_list<std::pair<std::string_view, std::vector<std::string>>>;

std::string json(std::string_view event, Members members, Numbers numbers = {}, Lists lists = {}) {
  wire::JsonWriter writer(wire::NonFinite::refuse);
  writer.begin_object();
  writer.key("event");
  writer.string(event);
  for (const auto& [name, value] : members) {
    writer.key(name);
    writer.string(value);
  }
  for (const auto& [name, value] : numbers) {
    writer.key(name);
    writer.integer(value);
  }
  for (const auto& [name, texts] : lists) {
    writer.key(name);
    writer.begin_array();
    for (const auto& text : texts) writer.string(text);
    writer.end_array();
  }
  writer.end_object();
  return std::move(writer).take() + "\n";
}

/// "1234.5 MB".
std::string megabytes(std::uint64_t bytes) {
  std::array<char, 32> text = {};
  const auto size = std::snprintf(
      text.data(), text.size(), "%.1f MB", static_cast<double>(bytes) / static_cast<double>(kMega));
  return {text.data(), static_cast<std::size_t>(std::max(size, 0))};
}

/// "fetching Qwen/Qwen3-0.6B: 45 %, 680.1 MB of 1503.3 MB", with a bar for terminals.
std::string fetch_text(const FetchProgress& progress, bool has_bar) {
  const auto total = std::max<std::uint64_t>(progress.total_bytes, 1);
  const double part = static_cast<double>(progress.bytes) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(kBarWidth));
  const std::string bar =
      has_bar
          ? base::concat(" [", std::string(filled, '#'), std::string(kBarWidth - filled, '-'), "] ")
          : std::string(": ");
  return base::concat("fetching ",
                      progress.model,
                      bar,
                      static_cast<int>(part * 100),
                      " %, ",
                      megabytes(progress.bytes),
                      " of ",
                      megabytes(progress.total_bytes));
}

/// "at most 8192 MiB, of 15264 MiB that are free".
std::string memory_text(const server::EngineFacts& engine) {
  const auto mebibytes = [](std::size_t bytes) { return base::concat(bytes >> 20U, " MiB"); };
  std::string free = mebibytes(engine.free_bytes) + " that are free";
  if (engine.limit_bytes == 0) return free;
  return base::concat("at most ", mebibytes(engine.limit_bytes), ", of ", free);
}

/// "avx512bf16 in bf16, on 2 threads".
std::string kernels_text(const server::EngineFacts& engine) {
  return base::concat(engine.kernels,
                      " in ",
                      engine.precision,
                      ", on ",
                      engine.threads,
                      engine.threads == 1 ? " thread" : " threads");
}

}  // namespace

ServeOutput::ServeOutput(bool is_json)
    : is_json_(is_json), has_terminal_(!is_json && ::isatty(STDOUT_FILENO) == 1) {}

void ServeOutput::line(std::string_view level, std::string_view message) const {
  write(is_json_ ? json("log", {{"level", level}, {"message", message}})
                 : base::concat(message, "\n"));
}

void ServeOutput::ready(const LocalServer& server, const Setup& setup) const {
  const auto pid = static_cast<std::uint64_t>(::getpid());
  const auto& engine = setup.engine;
  std::vector<std::string> names;
  names.reserve(setup.models.size());
  for (const auto& model : setup.models) names.push_back(model.name);
  if (is_json_) {
    return write(json("ready",
                      {{"url", server.base_url()},
                       {"data_dir", server.data_dir().string()},
                       {"kernels", engine.kernels},
                       {"dtype", engine.precision}},
                      {{"pid", pid},
                       {"threads", engine.threads},
                       {"free_bytes", engine.free_bytes},
                       {"memory_limit_bytes", engine.limit_bytes}},
                      {{"models", names}}));
  }
  std::string listed;
  for (const auto& name : names) listed += base::concat(listed.empty() ? "" : ", ", name);
  const bool has_keys = setup.has_keys;
  write(base::concat(
      "tinker ",
      version(),
      " serves ",
      listed,
      "\n\n  url      ",
      server.base_url(),
      "\n  key      ",
      has_keys ? "one of your key file" : "any that begins with tml-, for instance tml-local",
      "\n  memory   ",
      memory_text(engine),
      "\n  kernels  ",
      kernels_text(engine),
      "\n  data     ",
      server.data_dir().string(),
      "\n  process  ",
      pid,
      "\n\n  export TINKER_BASE_URL=",
      server.base_url(),
      has_keys ? "" : " TINKER_API_KEY=tml-local",
      "\n\nCtrl-C stops it.\n"));
}

void ServeOutput::fetched(const FetchProgress& progress) const {
  const std::scoped_lock lock(mutex_);
  const bool is_first = progress.model != fetched_model_;
  const bool is_last = progress.bytes == progress.total_bytes;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds pause = has_terminal_ ? kBarPause : kLinePause;
  if (!is_first && !is_last && shown_ && now < *shown_ + pause) return;
  shown_ = now;
  fetched_model_ = progress.model;
  if (is_json_) {
    return write_locked(json("fetch",
                             {{"model", progress.model}},
                             {{"bytes", progress.bytes}, {"total_bytes", progress.total_bytes}}));
  }
  write_locked(fetch_text(progress, has_terminal_) + (has_terminal_ && !is_last ? "" : "\n"));
  is_bar_open_ = has_terminal_ && !is_last;
}

void ServeOutput::refused(const Error& error) const {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(is_bar_open_, false)) std::cout << '\n' << std::flush;
  std::cerr << base::concat("tinker serve: ", error.to_string(), "\n");
}

void ServeOutput::write(std::string_view text) const {
  const std::scoped_lock lock(mutex_);
  write_locked(text);
}

void ServeOutput::write_locked(std::string_view text) const {
  if (std::exchange(is_bar_open_, false)) std::cout << kClearLine;
  std::cout << text << std::flush;
}

}  // namespace tinker::cli
