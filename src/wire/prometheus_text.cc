#include "wire/prometheus_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "wire/utf8.h"

namespace tinker::wire {

namespace {

/// Backslash, double quote and line feed are escaped in the values of labels.
std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : as_utf8(std::string(value))) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return base::concat(value);
}

/// A bound, the same text in every scrape: "0.0008".
std::string bound_text(double bound) {
  std::array<char, 32> digits = {};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), bound, std::chars_format::fixed);
  return {digits.data(), end.ptr};
}

}  // namespace

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  out_ += base::concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void PrometheusText::line(std::string_view suffix, const Labels& labels, std::string_view value) {
  out_ += base::concat(name_, suffix);
  char separator = '{';
  for (const auto& [name, text] : labels) {
    out_ += base::concat(separator, name, "=\"", escaped(text), "\"");
    separator = ',';
  }
  out_ += base::concat(labels.empty() ? " " : "} ", value, "\n");
}

void PrometheusText::sample(const Labels& labels, double value) {
  line("", labels, number(value));
}

void PrometheusText::histogram(const Labels& labels,
                               std::span<const std::uint64_t> counts,
                               std::span<const double> bounds,
                               double sum) {
  std::uint64_t total = 0;
  Labels with_bound = labels;
  with_bound.emplace_back("le", "");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    const std::string bound = i < bounds.size() ? bound_text(bounds[i]) : "+Inf";
    with_bound.back().second = bound;
    line("_bucket", with_bound, base::concat(total));
  }
  line("_sum", labels, number(sum));
  line("_count", labels, base::concat(total));
}

}  // namespace tinker::wire
