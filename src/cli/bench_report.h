#pragma once

#include <cstdint>
#include <string>

#include "cli/bench_load.h"

namespace tinker::cli {

/// What the operating system says about this process.
struct ProcessUsage {
  double cpu_seconds = 0;
  double peak_rss_mib = 0;

  static ProcessUsage now();
};

/// What `tinker bench` tells.
struct BenchReport {
  BenchTally tally = {};
  double cpu_seconds = 0;  ///< Of the run.
  double peak_rss_mib = 0;

  /// One object on one line, without its end.
  [[nodiscard]] std::string to_json() const;
  /// A few aligned lines for people.
  [[nodiscard]] std::string to_table() const;
};

}  // namespace tinker::cli
