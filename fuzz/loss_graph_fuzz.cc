// Graphs built from bytes: names of real operations with nearly fitting arguments. Whatever comes
// out, compiling and running must end in a value or an error, within bounded memory and time.
#include <cstdint>
#include <string>
#include <vector>

#include "tinker/loss.h"

namespace {

using tinker::CustomLossGraph;
using tinker::CustomLossNode;
using tinker::CustomLossOp;
using tinker::Json;

struct Input {
  const std::uint8_t* at;
  const std::uint8_t* end;

  bool empty() const { return at >= end; }
  std::uint8_t byte() { return at < end ? *at++ : std::uint8_t{0}; }
  std::int64_t small() { return static_cast<std::int8_t>(byte()) / 16; }
};

Json object(const char* kind, Json content) {
  return Json::Object{{kind, std::move(content)}};
}

Json argument(Input& input, std::size_t nodes, int depth) {
  const auto kind = input.byte() % 16;
  const auto items = [&] {
    Json::Array out;
    for (auto count = input.byte() % 4; count > 0 && depth < 3; --count) {
      out.push_back(argument(input, nodes, depth + 1));
    }
    return out;
  };
  switch (kind) {
    case 0: return nullptr;
    case 1: return input.byte() % 2 == 0;
    case 2: return static_cast<double>(input.small()) * 0.75;
    case 3: return items();
    case 4: return object("tuple", items());
    case 5: return object("slice", Json::Array{input.small(), nullptr, input.small()});
    case 6: return object("ellipsis", true);
    case 7: return object("dtype", input.byte() % 2 == 0 ? "int64" : "float32");
    case 8: return object("float", input.byte() % 2 == 0 ? "inf" : "nan");
    case 9: return std::int64_t{1} << (input.byte() % 63);
    case 10: return input.small();
    case 11: return "shape";
    default: return object("ref", "n" + std::to_string(input.byte() % (nodes + 1)));
  }
}

CustomLossNode node(Input& input, std::size_t index) {
  static const std::vector<std::string> kNames = tinker::loss::supported_operations();
  constexpr std::string_view kMethod = "Tensor.";
  std::string target = kNames[(input.byte() * 256U + input.byte()) % kNames.size()];
  CustomLossNode out = {.op = CustomLossOp::call_function, .name = "n" + std::to_string(index)};
  if (target.starts_with(kMethod)) {
    out.op = CustomLossOp::call_method;
    target.erase(0, kMethod.size());
  }
  out.target = std::move(target);
  out.args.push_back(object("ref", "n" + std::to_string(input.byte() % index)));
  for (auto count = input.byte() % 4; count > 0; --count) {
    out.args.push_back(argument(input, index, 0));
  }
  if (input.byte() % 4 == 0) out.kwargs["dim"] = input.small();
  if (input.byte() % 4 == 0) out.kwargs["keepdim"] = true;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input = {data, data + size};
  const std::int64_t rank = 1 + input.byte() % 2;
  CustomLossGraph graph;
  graph.nodes.push_back({.op = CustomLossOp::placeholder, .name = "n0", .target = "logprobs"});
  graph.nodes.push_back({.op = CustomLossOp::placeholder, .name = "n1", .target = "ids"});
  while (!input.empty() && graph.nodes.size() < 64) {
    graph.nodes.push_back(node(input, graph.nodes.size()));
  }
  const std::string last = graph.nodes.back().name;
  graph.nodes.push_back({.op = CustomLossOp::call_method,
                         .name = "loss",
                         .target = "sum",
                         .args = {object("ref", last)}});
  graph.nodes.push_back(
      {.op = CustomLossOp::output,
       .name = "output",
       .target = "output",
       .args = {
           object("tuple", Json::Array{object("ref", "loss"), object("dict", Json::Object{})})}});
  const auto formula =
      tinker::loss::Formula::from_graph("fuzz", {{"logprobs", rank}, {"ids", 1}}, graph);
  if (!formula) return 0;
  const tinker::TensorData logprobs(
      tinker::Buffer<float>({-0.5F, -1.5F, -2.5F, -0.25F}),
      rank == 1 ? tinker::TensorData::Shape{4} : tinker::TensorData::Shape{2, 2});
  const auto found = formula->evaluate(logprobs, {{"ids", std::vector<std::int64_t>{1, 0, 3, 2}}});
  TINKER_CHECK(!found || found->gradient.size() == 4);
  return 0;
}
