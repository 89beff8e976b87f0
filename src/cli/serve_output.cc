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

std::string json(std::string_view event, Members members, Numbers numbers = {}) {
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

}  // namespace

ServeOutput::ServeOutput(bool is_json)
    : is_json_(is_json), has_terminal_(!is_json && ::isatty(STDOUT_FILENO) == 1) {}

void ServeOutput::line(std::string_view level, std::string_view message) const {
  write(is_json_ ? json("log", {{"level", level}, {"message", message}})
                 : base::concat(message, "\n"));
}

void ServeOutput::ready(const LocalServer& server,
                        const std::vector<ServedModel>& models,
                        bool has_keys) const {
  const auto pid = static_cast<std::uint64_t>(::getpid());
  if (is_json_) {
    return write(json("ready",
                      {{"url", server.base_url()}, {"data_dir", server.data_dir().string()}},
                      {{"pid", pid}}));
  }
  std::string names;
  for (const auto& model : models) names += base::concat(names.empty() ? "" : ", ", model.name);
  write(base::concat(
      "tinker ",
      version(),
      " serves ",
      names,
      "\n\n  url      ",
      server.base_url(),
      "\n  key      ",
      has_keys ? "one of your key file" : "any that begins with tml-, for instance tml-local",
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
