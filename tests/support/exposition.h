#pragma once

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

namespace tinker::testing {

/// A reader of the text format, strict enough to notice what a scraper would refuse.
class Exposition {
 public:
  using Labels = std::map<std::string, std::string>;

  static std::optional<Exposition> parse(std::string_view text) {
    Exposition out;
    while (!text.empty()) {
      const auto end = text.find('\n');
      if (end == std::string_view::npos) return std::nullopt;  // every line ends
      if (!out.read_line(text.substr(0, end))) {
        ADD_FAILURE() << "cannot be read: " << text.substr(0, end);
        return std::nullopt;
      }
      text.remove_prefix(end + 1);
    }
    return out;
  }
  [[nodiscard]] std::optional<double> value(const std::string& name, const Labels& labels) const {
    const auto found = samples_.find({name, labels});
    return found == samples_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Of all samples of a name, whatever their labels.
  [[nodiscard]] double sum(std::string_view name) const {
    double out = 0;
    for (const auto& [key, number] : samples_) out += key.first == name ? number : 0;
    return out;
  }
  [[nodiscard]] const std::map<std::string, std::string>& types() const { return types_; }
  [[nodiscard]] std::size_t size() const { return samples_.size(); }

 private:
  bool read_line(std::string_view line) {
    if (line.starts_with("# HELP ")) return read_comment(line.substr(7), helps_);
    if (line.starts_with("# TYPE ")) return read_comment(line.substr(7), types_);
    const std::string name(take_name(line));
    if (name.empty() || !is_declared(name)) return false;
    Labels labels;
    if (line.starts_with('{') && !take_labels(line, labels)) return false;
    if (!line.starts_with(' ')) return false;
    const auto number = read_number(line.substr(1));
    return number && samples_.emplace(std::pair(name, labels), *number).second;  // no sample twice
  }
  /// Each family is described once, before its samples.
  static bool read_comment(std::string_view rest, std::map<std::string, std::string>& out) {
    const std::string name(take_name(rest));
    return !name.empty() && rest.starts_with(' ') && rest.size() > 1 &&
           out.emplace(name, rest.substr(1)).second;
  }
  bool is_declared(std::string name) const {
    for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
      const auto family = name.substr(0, name.size() - std::min(name.size(), suffix.size()));
      const auto type = types_.find(family);
      if (name.ends_with(suffix) && type != types_.end() && type->second == "histogram")
        return true;
    }
    return types_.contains(name) && helps_.contains(name) && types_.at(name) != "histogram";
  }
  static std::string_view take_name(std::string_view& line) {
    std::size_t size = 0;
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    while (size < line.size() &&
           (is_letter(line[size]) || (size > 0 && line[size] >= '0' && line[size] <= '9'))) {
      ++size;
    }
    const auto name = line.substr(0, size);
    line.remove_prefix(size);
    return name;
  }
  static bool take_labels(std::string_view& line, Labels& out) {
    line.remove_prefix(1);
    while (true) {
      const std::string name(take_name(line));
      if (name.empty() || !line.starts_with("=\"")) return false;
      line.remove_prefix(2);
      std::string value;
      while (!line.empty() && line.front() != '"') {
        if (line.front() == '\\') {
          line.remove_prefix(1);
          if (line.empty() || (line[0] != '\\' && line[0] != '"' && line[0] != 'n')) return false;
          value += line[0] == 'n' ? '\n' : line[0];
        } else {
          value += line.front();
        }
        line.remove_prefix(1);
      }
      if (line.empty() || !out.emplace(name, value).second) return false;
      line.remove_prefix(1);
      const bool is_last = line.starts_with('}');
      if (!is_last && !line.starts_with(',')) return false;
      line.remove_prefix(1);
      if (is_last) return true;
    }
  }
  static std::optional<double> read_number(std::string_view text) {
    if (text == "+Inf") return std::numeric_limits<double>::infinity();
    if (text == "-Inf") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    double out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return out;
  }

  std::map<std::string, std::string> helps_;
  std::map<std::string, std::string> types_;
  std::map<std::pair<std::string, Labels>, double> samples_;
};

}  // namespace tinker::testing
