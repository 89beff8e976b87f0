#pragma once

#include <chrono>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/engine_facts.h"
#include "tinker/local_server.h"

namespace tinker::cli {

/// What `tinker serve` says on standard output, one event a line: as text for people, or as JSON.
///
/// Thread-safe.
class ServeOutput {
 public:
  explicit ServeOutput(bool is_json);

  void line(std::string_view level, std::string_view message) const;
  /// What a ready server says of itself, besides its address.
  struct Setup {
    std::vector<ServedModel> models = {};
    server::EngineFacts engine = {};
    bool has_keys = false;
  };
  void ready(const LocalServer& server, const Setup& setup) const;
  /// On a terminal a bar that moves, else a line now and then; always the first and the last.
  void fetched(const FetchProgress& progress) const;
  /// On standard error: why the server does not start.
  void refused(const Error& error) const;

 private:
  using Instant = std::chrono::steady_clock::time_point;
  void write(std::string_view text) const;
  /// With `mutex_` held.
  void write_locked(std::string_view text) const;

  bool is_json_;
  bool has_terminal_;
  mutable std::mutex mutex_ = {};
  mutable bool is_bar_open_ = false;           // the cursor stands behind it
  mutable std::string fetched_model_ = {};     // whose progress was shown last
  mutable std::optional<Instant> shown_ = {};  // and when
};

}  // namespace tinker::cli
