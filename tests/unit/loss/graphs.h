#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tinker/types/custom_loss.h"

namespace tinker::loss {

inline Json ref(std::string name) {
  return Json::Object{{"ref", std::move(name)}};
}

inline CustomLossNode placeholder(const std::string& name) {
  return {.op = CustomLossOp::placeholder, .name = name, .target = name};
}

inline CustomLossNode function(std::string name, std::string target, std::vector<Json> args) {
  return {.op = CustomLossOp::call_function,
          .name = std::move(name),
          .target = std::move(target),
          .args = std::move(args)};
}

inline CustomLossNode method(std::string name, std::string target, std::vector<Json> args) {
  return {.op = CustomLossOp::call_method,
          .name = std::move(name),
          .target = std::move(target),
          .args = std::move(args)};
}

inline CustomLossNode output(std::string loss, Json::Object metrics = {}) {
  return {.op = CustomLossOp::output,
          .name = "output",
          .target = "output",
          .args = {Json::Object{
              {"tuple",
               Json::Array{ref(std::move(loss)), Json::Object{{"dict", std::move(metrics)}}}}}}};
}

/// A graph of `logprobs`, the nodes, and the sum of the last of them as the loss.
inline CustomLossGraph summed(std::vector<CustomLossNode> nodes) {
  CustomLossGraph graph = {.nodes = {placeholder("logprobs")}};
  const std::string last = nodes.back().name;
  for (auto& node : nodes) graph.nodes.push_back(std::move(node));
  graph.nodes.push_back(method("loss", "sum", {ref(last)}));
  graph.nodes.push_back(output("loss"));
  return graph;
}

}  // namespace tinker::loss
