#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/types/json.h"
#include "tinker/types/open_enum.h"

namespace tinker {

enum class CustomLossOp { placeholder, get_attr, call_function, call_method, call_module, output };
template <>
inline constexpr std::array<std::string_view, 6> detail::kEnumNames<CustomLossOp> = {
    "placeholder", "get_attr", "call_function", "call_method", "call_module", "output"};

/// One step of a traced loss. Arguments are JSON values; objects with one key stand for what JSON
/// lacks, e.g. {"ref": "mul"} for the value of an earlier node (PROTOCOL 7.14).
struct CustomLossNode {
  CustomLossOp op = CustomLossOp::placeholder;
  std::string name = {};    ///< Unique in the graph.
  std::string target = {};  ///< Parameter, function or method name.
  std::vector<Json> args = {};
  std::map<std::string, Json, std::less<>> kwargs = {};

  friend bool operator==(const CustomLossNode&, const CustomLossNode&) = default;
};

/// A traced loss: its nodes in execution order.
struct CustomLossGraph {
  std::vector<CustomLossNode> nodes = {};

  friend bool operator==(const CustomLossGraph&, const CustomLossGraph&) = default;
};

struct CustomLossInput {
  std::string name = {};
  std::int64_t rank = 1;  ///< 0 scalar, 1 [T], 2 [T, K].

  friend bool operator==(const CustomLossInput&, const CustomLossInput&) = default;
};

/// POST create_custom_loss (PROTOCOL 9.40).
struct CreateCustomLossRequest {
  std::string session_id = {};
  std::int64_t custom_loss_seq_id = 0;
  std::string name = {};
  std::vector<CustomLossInput> inputs = {};  ///< In parameter order, "logprobs" first.
  CustomLossGraph graph = {};

  friend bool operator==(const CreateCustomLossRequest&, const CreateCustomLossRequest&) = default;
};

struct CreateCustomLossResponse {
  std::string loss_id = {};

  friend bool operator==(const CreateCustomLossResponse&,
                         const CreateCustomLossResponse&) = default;
};

}  // namespace tinker
