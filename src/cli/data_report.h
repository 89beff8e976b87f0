#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tinker/training_data.h"

namespace tinker::cli {

/// What `tinker data check` finds out.
struct DataReport {
  std::vector<std::string> files = {};
  std::size_t rows = 0;
  std::size_t conversations = 0;
  std::size_t preferences = 0;
  std::size_t texts = 0;

  std::size_t bad = 0;
  std::optional<Error> first_bad = {};  ///< Begins with the file and the number of the line.

  bool is_rendered = false;  ///< Without a renderer, rows are only read.
  DataStatistics data = {};
  std::optional<std::size_t> max_length = {};
  std::size_t truncated_rows = 0;
  std::size_t untrained_rows = 0;
  std::string first_untrained = {};  ///< File and number of the line.
  /// Data by the length of their examples before they are truncated: `lengths[k]` counts those
  /// of 2^(k-1) to 2^k - 1 tokens.
  std::array<std::size_t, 65> lengths = {};
};

/// For people.
std::string report_text(const DataReport& report);
/// One JSON object.
std::string report_json(const DataReport& report);

}  // namespace tinker::cli
