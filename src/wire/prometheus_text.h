#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tinker::wire {

/// Writes Prometheus text exposition format 0.0.4.
///
///     PrometheusText out;
///     out.family("requests_total", "counter", "Requests by status.");
///     out.sample({{"status", "200"}}, 7);
class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  /// The samples that follow are of this family. `name` and `type` stay valid until they are
  /// written.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(const Labels& labels, double value);
  /// `counts` of values up to each of `bounds`, in seconds, and above the bound before; one more
  /// count is of the values above all bounds.
  void histogram(const Labels& labels,
                 std::span<const std::uint64_t> counts,
                 std::span<const double> bounds,
                 double sum);
  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  void line(std::string_view suffix, const Labels& labels, std::string_view value);

  std::string_view name_ = {};
  std::string out_ = {};
};

}  // namespace tinker::wire
