#include "loss/program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace tinker::loss::eval {
namespace {

/// Elements that one run may read and write: enough for hundreds of operations on long data, little
/// enough for one machine.
std::size_t budget_for(std::size_t input_elements) {
  constexpr std::size_t kLeast = std::size_t{1} << 26;
  constexpr std::size_t kMost = std::size_t{1} << 28;
  return std::clamp(512 * std::min(input_elements, kMost), kLeast, kMost);
}

std::string node_name(std::string_view name, std::string_view target) {
  return base::concat("node '", name.substr(0, 96), "' (", target.substr(0, 96), ")");
}

/// Parameters that torch has and that must be left alone here.
bool is_refused(std::string_view parameter, const Value& value) {
  constexpr std::array<std::string_view, 4> kRefused = {"out", "weight", "size_average", "reduce"};
  return !value.is_none() && std::ranges::find(kRefused, parameter) != kRefused.end();
}

/// Arguments in the order of an operation's parameters, as Python binds them.
class Binder {
 public:
  explicit Binder(const std::vector<Parameter>& parameters)
      : parameters_(parameters), bound_(parameters.size()) {}

  Result<void> positional(Value value) {
    while (next_ < parameters_.size() && parameters_[next_].is_keyword_only) ++next_;
    if (next_ >= parameters_.size()) return invalid("too many arguments");
    if (!parameters_[next_].is_variadic) {
      bound_[next_++] = std::move(value);
      return {};
    }
    if (!bound_[next_]) bound_[next_] = Sequence{};
    std::get<Sequence>(bound_[next_]->any).items.push_back(std::move(value));
    return {};
  }

  /// False when no parameter that is still free has the name. `aliases`: whether to look beyond
  /// each parameter's own name.
  bool keyword(std::string_view name, const Value& value, bool aliases) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto& names = parameters_[i].names;
      const bool fits =
          aliases ? std::ranges::find(names, name) != names.end() : names.front() == name;
      if (!fits || bound_[i]) continue;
      bound_[i] = value;
      return true;
    }
    return false;
  }

  Result<std::vector<Value>> finish() && {
    std::vector<Value> out;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto& parameter = parameters_[i];
      if (!bound_[i]) bound_[i] = parameter.is_variadic ? Value(Sequence{}) : parameter.fallback;
      if (!bound_[i])
        return invalid(base::concat("argument '", parameter.names.front(), "' is missing"));
      if (is_refused(parameter.names.front(), *bound_[i])) {
        return invalid(base::concat("argument '", parameter.names.front(), "' is not supported"));
      }
      out.push_back(std::move(*bound_[i]));
    }
    return out;
  }

 private:
  const std::vector<Parameter>& parameters_;
  std::vector<std::optional<Value>> bound_;
  std::size_t next_ = 0;
};

/// Puts the values of earlier nodes where a compiled argument refers to them.
Value resolve(const Value& argument, std::span<const Value> values) {
  if (const auto* ref = argument.get_if<Ref>()) return values[ref->node];
  if (const auto* sequence = argument.get_if<Sequence>()) {
    Sequence out = *sequence;
    for (auto& item : out.items) item = resolve(item, values);
    return out;
  }
  if (const auto* slice = argument.get_if<SliceRange>()) {
    SliceRange out = *slice;
    for (auto& bound : out.bounds) bound = resolve(bound, values);
    return out;
  }
  return argument;
}

std::string describe_all(std::span<const Value> arguments) {
  std::string out;
  for (const auto& argument : arguments) {
    if (argument.get_if<Variable>() == nullptr && argument.get_if<Sequence>() == nullptr) continue;
    out += base::concat(out.empty() ? " of " : ", ", describe(argument));
  }
  return out;
}

Result<Variable> scalar_output(const Value& value, std::string_view what) {
  const auto* variable = value.get_if<Variable>();
  if (variable == nullptr) {
    return invalid(base::concat("expected ", what, " to be a tensor, found ", describe(value)));
  }
  return *variable;
}

/// A metric may be a tensor of one element or a plain number.
Result<double> metric_output(const Value& value, std::string_view name) {
  if (const auto* number = value.get_if<Number>()) return number->value;
  TINKER_TRY(const Variable found, scalar_output(value, name));
  if (found.size() != 1) {
    return bad_shape(base::concat("metric '", name, "' to be a scalar"), found.shape());
  }
  return found.values()[0];
}

}  // namespace

Result<void> Program::add_placeholder(const CustomLossNode& node) {
  const auto input = static_cast<std::size_t>(
      std::ranges::count_if(steps_, [](const Step& s) { return s.operation == nullptr; }));
  if (input >= inputs_.size()) {
    return invalid(base::concat("expected ", inputs_.size(), " placeholders, found more"));
  }
  if (node.target != inputs_[input].name) {
    return invalid(base::concat("expected placeholder ",
                                input,
                                " to be '",
                                inputs_[input].name,
                                "', found '",
                                std::string_view(node.target).substr(0, 96),
                                "'"));
  }
  steps_.push_back({.name = node.name, .target = node.target, .input = input});
  return {};
}

Result<void> Program::add_call(const CustomLossNode& node, ArgumentReader& reader) {
  const auto& table = OpTable::instance();
  const bool is_method = node.op == CustomLossOp::call_method;
  const Operation* operation =
      is_method ? table.find_method(node.target) : table.find_function(node.target);
  if (operation == nullptr) return invalid(is_method ? "unknown method" : "unknown function");
  Binder binder(operation->parameters);
  for (const auto& argument : node.args) {
    TINKER_TRY(Value value, reader.read(argument));
    TINKER_TRY(binder.positional(std::move(value)));
  }
  std::vector<std::pair<std::string_view, Value>> left;
  for (const auto& [name, argument] : node.kwargs) {
    TINKER_TRY(Value value, reader.read(argument));
    if (!binder.keyword(name, value, false)) left.emplace_back(name, std::move(value));
  }
  for (const auto& [name, value] : left) {
    if (!binder.keyword(name, value, true)) {
      return invalid(base::concat("unexpected argument '", name.substr(0, 96), "'"));
    }
  }
  TINKER_TRY(auto arguments, std::move(binder).finish());
  steps_.push_back({.name = node.name,
                    .target = node.target,
                    .operation = operation,
                    .arguments = std::move(arguments)});
  return {};
}

Result<void> Program::add_node(const CustomLossNode& node,
                               NodeIndex& nodes,
                               ArgumentReader& reader) {
  const std::size_t index = steps_.size();
  switch (node.op) {
    case CustomLossOp::placeholder: TINKER_TRY(add_placeholder(node)); break;
    case CustomLossOp::call_function:
    case CustomLossOp::call_method: TINKER_TRY(add_call(node, reader)); break;
    default:
      return invalid(base::concat("nodes of kind ", to_string(node.op), " are not allowed here"));
  }
  if (!nodes.emplace(node.name, index).second) return invalid("the name comes twice");
  return {};
}

Result<Program> Program::compile(std::span<const CustomLossInput> inputs,
                                 const CustomLossGraph& graph) {
  TINKER_TRY(check_inputs(inputs));
  if (graph.nodes.size() > kMaxNodes) {
    return invalid(
        base::concat("expected at most ", kMaxNodes, " nodes, found ", graph.nodes.size()));
  }
  if (graph.nodes.empty() || graph.nodes.back().op != CustomLossOp::output) {
    return invalid("expected an output node at the end");
  }
  Program program;
  program.inputs_.assign(inputs.begin(), inputs.end());
  NodeIndex nodes;
  ArgumentReader reader(nodes);
  for (std::size_t i = 0; i + 1 < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (auto added = program.add_node(node, nodes, reader); !added) {
      return added.error().with_context(node_name(node.name, node.target));
    }
  }
  const auto placed = std::ranges::count_if(
      program.steps_, [](const Step& step) { return step.operation == nullptr; });
  if (static_cast<std::size_t>(placed) != inputs.size()) {
    return invalid(base::concat("expected ", inputs.size(), " placeholders, found ", placed));
  }
  TINKER_TRY(program.outputs_, read_outputs(graph.nodes.back(), nodes));
  return program;
}

Answer Program::run_step(const Step& step, Tape& tape, std::span<const Value> values) const {
  std::vector<Value> arguments;
  arguments.reserve(step.arguments.size());
  for (const auto& argument : step.arguments) arguments.push_back(resolve(argument, values));
  const Call call(tape, step.operation->parameters, std::move(arguments));
  auto result = step.operation->run(call);
  if (result) return result;
  std::vector<Value> shown;
  shown.reserve(call.size());
  for (std::size_t i = 0; i < call.size(); ++i) shown.push_back(call[i]);
  return result.error().with_context(node_name(step.name, step.target + describe_all(shown)));
}

Result<Outcome> Program::run(std::vector<Tensor> inputs) const {
  if (inputs.size() != inputs_.size()) {
    return invalid(base::concat("expected ", inputs_.size(), " inputs, found ", inputs.size()));
  }
  std::size_t elements = 0;
  for (const auto& input : inputs) elements += input.size();
  Tape tape(budget_for(elements));
  inputs[0].dtype = Dtype::floating;
  const Variable logprobs = tape.leaf(std::move(inputs[0]));
  std::vector<Value> values;
  values.reserve(steps_.size());
  for (const auto& step : steps_) {
    if (step.operation == nullptr) {
      values.emplace_back(step.input == 0 ? logprobs : Variable(std::move(inputs[step.input])));
      continue;
    }
    TINKER_TRY(Value value, run_step(step, tape, values));
    values.push_back(std::move(value));
  }
  Outcome outcome;
  TINKER_TRY(const Variable loss, scalar_output(values[outputs_.loss], "the loss"));
  if (loss.rank() != 0) return bad_shape("a scalar loss", loss.shape());
  if (!loss.requires_gradient()) return invalid("the loss does not depend on logprobs");
  for (const auto& [name, node] : outputs_.metrics) {
    TINKER_TRY(outcome.metrics[name], metric_output(values[node], name));
  }
  outcome.loss = loss.values()[0];
  outcome.gradient = tape.differentiate(loss, logprobs);
  return outcome;
}

}  // namespace tinker::loss::eval
