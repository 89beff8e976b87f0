#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "client/chunks.h"

namespace tinker::client {

namespace {

/// What the chunks say about one metric, and how many data each of them had (R8.5).
struct Column {
  std::vector<double> values = {};
  std::vector<double> weights = {};
};

double sum(const Column& column) {
  return std::accumulate(column.values.begin(), column.values.end(), 0.0);
}

Result<double> mean(const Column& column) {
  const double total = std::accumulate(column.weights.begin(), column.weights.end(), 0.0);
  if (total == 0.0) {
    return Error{.code = ErrorCode::invalid_response, .message = "no chunk has any output"};
  }
  return std::inner_product(
             column.values.begin(), column.values.end(), column.weights.begin(), 0.0) /
         total;
}

Result<double> slack(const Column& column) {
  TINKER_TRY(const double average, mean(column));
  return std::ranges::max(column.values) - average;
}

/// The sum of the values as integers modulo 2^64 (R8.6).
Result<std::uint64_t> hash2(const Column& column) {
  std::uint64_t hash = 0;
  for (const double value : column.values) {
    if (!std::isfinite(value)) {
      return Error{.code = ErrorCode::invalid_response,
                   .message = base::concat("cannot hash ", value)};
    }
    // fmod keeps the sign and is exact; the sum wraps as it should.
    const double rest = std::fmod(std::trunc(value), 0x1.0p64);
    const auto magnitude = static_cast<std::uint64_t>(std::abs(rest));
    hash += rest < 0 ? 0 - magnitude : magnitude;
  }
  return hash;
}

/// Stores `key` reduced as its second part says; unknown reductions are left out (R8.4).
Result<void> reduce(const std::string& key,
                    std::string_view reduction,
                    const Column& column,
                    ForwardBackwardOutput& output) {
  auto& out = output.metrics;
  if (reduction == "sum") {
    out[key] = sum(column);
  } else if (reduction == "mean") {
    TINKER_TRY(out[key], mean(column));
  } else if (reduction == "min") {
    out[key] = std::ranges::min(column.values);
  } else if (reduction == "max") {
    out[key] = std::ranges::max(column.values);
  } else if (reduction == "slack") {
    TINKER_TRY(out[key], slack(column));
  } else if (reduction == "hash2") {
    TINKER_TRY(output.hashes[key], hash2(column));
    out[key] = static_cast<double>(output.hashes[key]);
  } else if (reduction == "unique") {
    out[key] = column.values.front();
    for (std::size_t i = 1; i < column.values.size(); ++i) {
      out[base::concat(key, "_", i)] = column.values[i];
    }
  }
  return {};
}

/// The part after the only ':' (R8.3).
Result<std::string_view> reduction_of(std::string_view key) {
  const auto colon = key.find(':');
  if (colon == std::string_view::npos || key.find(':', colon + 1) != std::string_view::npos) {
    return Error{
        .code = ErrorCode::invalid_response,
        .message = base::concat(R"(expected a metric named "name:reduction", found ")", key, "\"")};
  }
  return key.substr(colon + 1);
}

/// Nothing when one of the results lacks the metric (R8.2).
std::optional<Column> column_of(const std::vector<ForwardBackwardOutput>& parts,
                                const std::string& key) {
  Column column;
  for (const auto& part : parts) {
    const auto found = part.metrics.find(key);
    if (found == part.metrics.end()) return std::nullopt;
    column.values.push_back(found->second);
    column.weights.push_back(static_cast<double>(part.loss_fn_outputs.size()));
  }
  return column;
}

}  // namespace

Result<ForwardBackwardOutput> combine(std::vector<ForwardBackwardOutput> parts) {
  ForwardBackwardOutput out;
  if (parts.empty()) return out;
  for (const auto& [key, value] : parts.front().metrics) {
    const auto column = column_of(parts, key);
    if (!column) continue;
    TINKER_TRY(const auto reduction, reduction_of(key));
    if (auto reduced = reduce(key, reduction, *column, out); !reduced.ok()) {
      return Error(reduced.error()).with_context(base::concat("metric ", key));
    }
  }
  out.loss_fn_output_type = std::move(parts.front().loss_fn_output_type);
  out.loss_fn_outputs = std::move(parts.front().loss_fn_outputs);
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    std::ranges::move(part->loss_fn_outputs, std::back_inserter(out.loss_fn_outputs));
  }
  return out;
}

}  // namespace tinker::client
