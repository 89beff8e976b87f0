#include "cli/data_report.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "wire/json_writer.h"

namespace tinker::cli {
namespace {

using base::concat;

constexpr std::size_t kHistogramWidth = 40;

/// "1 row", "2 rows"
std::string counted(std::uint64_t count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

std::string padded(std::uint64_t number, std::size_t width) {
  std::string digits = concat(number);
  digits.insert(0, width - std::min(width, digits.size()), ' ');
  return digits;
}

/// "24.8 %"
std::string percent(std::uint64_t part, std::uint64_t whole) {
  const std::uint64_t tenths = whole == 0 ? 0 : (1000 * part + whole / 2) / whole;
  return concat(tenths / 10, ".", tenths % 10, " %");
}

struct Bin {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t count = 0;
};

/// The bins between the first and the last that have something in them.
std::vector<Bin> bins_of(const DataReport& report) {
  std::vector<Bin> out;
  std::size_t used = 0;
  for (std::size_t k = 1; k < report.lengths.size(); ++k) {
    const std::size_t count = report.lengths[k];
    if (count == 0 && out.empty()) continue;
    const std::uint64_t first = std::uint64_t{1} << (k - 1);
    out.push_back({.first = first, .last = first - 1 + first, .count = count});
    if (count > 0) used = out.size();
  }
  out.resize(used);
  return out;
}

std::string histogram(const DataReport& report) {
  const auto bins = bins_of(report);
  if (bins.empty()) return {};
  std::size_t most = 0;
  for (const auto& bin : bins) most = std::max(most, bin.count);
  const std::size_t width = concat(bins.back().last).size();
  std::string out = "lengths in tokens:\n";
  for (const auto& bin : bins) {
    const std::size_t bar = (bin.count * kHistogramWidth + most - 1) / most;
    out += concat("  ", padded(bin.first, width), " - ", padded(bin.last, width), " |");
    out += std::string(bar, '#') + concat(" ", bin.count, "\n");
  }
  return out;
}

void write_counts(wire::JsonWriter& writer, const DataReport& report) {
  const auto write = [&writer](std::string_view name, std::uint64_t count) {
    writer.key(name);
    writer.integer(count);
  };
  write("rows", report.rows);
  write("conversations", report.conversations);
  write("preferences", report.preferences);
  write("texts", report.texts);
  write("bad", report.bad);
  if (!report.is_rendered) return;
  write("data", report.data.data);
  write("tokens", report.data.tokens);
  write("trained", report.data.trained);
  write("longest", report.data.longest);
  write("untrained_rows", report.untrained_rows);
  if (report.max_length) write("truncated_rows", report.truncated_rows);
}

}  // namespace

std::string report_text(const DataReport& report) {
  std::string out = concat(counted(report.files.size(), "file"),
                           ", ",
                           counted(report.rows, "row"),
                           ": ",
                           counted(report.conversations, "conversation"),
                           ", ",
                           counted(report.preferences, "preference"),
                           ", ",
                           counted(report.texts, "text"),
                           ", ",
                           report.bad,
                           " bad\n");
  if (report.is_rendered) {
    const auto& data = report.data;
    out += concat(data.data,
                  " data: ",
                  counted(data.tokens, "token"),
                  ", ",
                  data.trained,
                  " trained (",
                  percent(data.trained, data.tokens),
                  "), longest ",
                  data.longest,
                  "\n");
    if (report.max_length) {
      out += concat(
          counted(report.truncated_rows, "row"), " truncated to ", *report.max_length, " tokens\n");
    }
    out += concat(counted(report.untrained_rows, "row"), " without a trained token");
    out += report.untrained_rows > 0 ? concat(", first ", report.first_untrained, "\n") : "\n";
    out += histogram(report);
  }
  if (report.first_bad) out += concat("first bad row: ", report.first_bad->to_string(), "\n");
  return out;
}

std::string report_json(const DataReport& report) {
  wire::JsonWriter writer(wire::NonFinite::refuse);
  writer.begin_object();
  writer.key("files");
  writer.begin_array();
  for (const auto& file : report.files) writer.string(file);
  writer.end_array();
  write_counts(writer, report);
  if (report.is_rendered) {
    writer.key("lengths");
    writer.begin_array();
    for (const auto& bin : bins_of(report)) {
      writer.begin_object();
      writer.key("from");
      writer.integer(bin.first);
      writer.key("to");
      writer.integer(bin.last);
      writer.key("count");
      writer.integer(std::uint64_t{bin.count});
      writer.end_object();
    }
    writer.end_array();
  }
  if (report.first_bad) {
    writer.key("first_bad");
    writer.string(report.first_bad->to_string());
  }
  writer.end_object();
  return std::move(writer).take();
}

}  // namespace tinker::cli
