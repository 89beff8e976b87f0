#pragma once

// Reads tests/golden/loss_graphs.txt; its format is told in make_loss_golden.py.

#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "loss/tensor.h"
#include "tinker/types/custom_loss.h"
#include "tinker/types/datum.h"

namespace tinker::loss {

struct GoldenCase {
  std::string name = {};
  std::string kind = {};  ///< "smooth" or "kinked".
  std::vector<CustomLossInput> inputs = {};
  std::vector<eval::Tensor> tensors = {};
  CustomLossGraph graph = {};
  double loss = 0.0;
  std::map<std::string, double, std::less<>> metrics = {};
  std::vector<double> gradient = {};
};

inline void PrintTo(const GoldenCase& golden, std::ostream* out) {
  *out << golden.name;
}

/// As much JSON as the file has: no escapes but those of plain text.
class MiniJson {
 public:
  explicit MiniJson(std::string_view text) : text_(text) {}

  Json value() {
    skip();
    if (take('[')) return array();
    if (take('{')) return object();
    if (text_[at_] == '"') return string();
    for (const auto& [word, json] :
         {std::pair<std::string_view, Json>{"null", nullptr}, {"true", true}, {"false", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return json;
      }
    }
    return number();
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == ',' || text_[at_] == ':'))
      ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Json array() {
    Json::Array out;
    while (!take(']')) out.push_back(value());
    return out;
  }
  Json object() {
    Json::Object out;
    while (!take('}')) {
      skip();
      auto name = string();
      out.emplace_back(std::move(name), value());
    }
    return out;
  }
  std::string string() {
    const auto end = text_.find('"', at_ + 1);
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  Json number() {
    const auto end = std::min(text_.find_first_of(",]} ", at_), text_.size());
    const std::string word(text_.substr(at_, end - at_));
    at_ = end;
    if (word.find_first_of(".e") == std::string::npos)
      return std::strtoll(word.c_str(), nullptr, 10);
    return std::strtod(word.c_str(), nullptr);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

inline double to_double(const Json& json) {
  if (const auto* number = json.get_if<double>()) return *number;
  if (const auto* integer = json.get_if<std::int64_t>()) return static_cast<double>(*integer);
  const auto* text = json.get_if<std::string>();
  return text != nullptr ? std::strtod(text->c_str(), nullptr)
                         : std::numeric_limits<double>::quiet_NaN();
}

inline std::vector<double> to_doubles(const Json& json) {
  std::vector<double> out;
  for (const auto& item : *json.get_if<Json::Array>()) out.push_back(to_double(item));
  return out;
}

inline void read_golden_line(GoldenCase& golden,
                             std::istringstream& line,
                             const std::string& kind) {
  std::string rest;
  if (kind == "case") {
    line >> golden.name >> golden.kind;
  } else if (kind == "input") {
    CustomLossInput input;
    std::string dtype;
    line >> input.name >> input.rank >> dtype;
    std::getline(line, rest);
    MiniJson json(rest);
    eval::Tensor tensor = {.dtype =
                               dtype == "int64" ? eval::Dtype::integer : eval::Dtype::floating};
    for (const double extent : to_doubles(json.value())) {
      tensor.shape.push_back(static_cast<std::int64_t>(extent));
    }
    tensor.values = to_doubles(json.value());
    golden.inputs.push_back(std::move(input));
    golden.tensors.push_back(std::move(tensor));
  } else if (kind == "node") {
    CustomLossNode node;
    std::string op;
    line >> op >> node.name >> node.target;
    for (std::size_t i = 0; i < tinker::detail::kEnumNames<CustomLossOp>.size(); ++i) {
      if (tinker::detail::kEnumNames<CustomLossOp>[i] == op) node.op = static_cast<CustomLossOp>(i);
    }
    std::getline(line, rest);
    MiniJson json(rest);
    node.args = *json.value().get_if<Json::Array>();
    const Json kwargs = json.value();
    for (const auto& [name, argument] : *kwargs.get_if<Json::Object>()) {
      node.kwargs[name] = argument;
    }
    golden.graph.nodes.push_back(std::move(node));
  } else if (kind == "result") {
    std::getline(line, rest);
    MiniJson json(rest);
    golden.loss = to_double(json.value());
    const Json metrics = json.value();
    for (const auto& [name, value] : *metrics.get_if<Json::Object>()) {
      golden.metrics[name] = to_double(value);
    }
    golden.gradient = to_doubles(json.value());
  }
}

inline std::vector<GoldenCase> read_golden() {
  std::ifstream file(LOSS_GOLDEN_FILE);
  std::vector<GoldenCase> out;
  GoldenCase golden;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    read_golden_line(golden, line, kind);
    if (kind == "end") out.push_back(std::exchange(golden, {}));
  }
  return out;
}

}  // namespace tinker::loss
