#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "loss/graph_reader.h"
#include "loss/op_table.h"
#include "tinker/types/custom_loss.h"

namespace tinker::loss::eval {

/// What a run of a loss on one datum gives.
struct Outcome {
  double loss = 0.0;
  std::map<std::string, double, std::less<>> metrics = {};
  std::vector<double> gradient = {};  ///< With respect to the first input, in its shape.
};

/// A graph that was checked and whose names were looked up, ready to run. Immutable.
///
/// Graphs may come from strangers: whatever one holds, compiling and running it ends in a value or
/// an error, within bounded memory and time.
class Program {
 public:
  /// Checks all that can be known without data (R9.5, PROTOCOL 7.14). Errors name the node.
  static Result<Program> compile(std::span<const CustomLossInput> inputs,
                                 const CustomLossGraph& graph);

  /// Runs the graph on one tensor per input, and differentiates it by the first. Errors name the
  /// node, its operation and the shapes that came in.
  [[nodiscard]] Result<Outcome> run(std::vector<Tensor> inputs) const;

 private:
  struct Step {
    std::string name = {};
    std::string target = {};
    const Operation* operation = nullptr;  // null for an input
    std::size_t input = 0;
    std::vector<Value> arguments = {};  // in the order of the operation's parameters
  };

  Result<void> add_node(const CustomLossNode& node, NodeIndex& nodes, ArgumentReader& reader);
  Result<void> add_placeholder(const CustomLossNode& node);
  Result<void> add_call(const CustomLossNode& node, ArgumentReader& reader);
  [[nodiscard]] Answer run_step(const Step& step, Tape& tape, std::span<const Value> values) const;

  std::vector<CustomLossInput> inputs_;
  std::vector<Step> steps_;
  Outputs outputs_;
};

}  // namespace tinker::loss::eval
