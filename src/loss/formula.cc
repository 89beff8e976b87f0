#include <exception>
#include <utility>

#include "base/sha256.h"
#include "base/strings.h"
#include "loss/builder.h"
#include "loss/program.h"
#include "tinker/loss.h"

namespace tinker::loss {
namespace {

/// One text per value, whatever the order in which strings and numbers follow each other: lengths
/// come before contents.
void write_canonical(std::string& out, const Json& json) {
  const auto write_text = [&](std::string_view text) {
    out += base::concat(text.size(), ":", text);
  };
  if (json.is_null()) {
    out += 'n';
  } else if (const auto* truth = json.get_if<bool>()) {
    out += *truth ? 't' : 'f';
  } else if (const auto* integer = json.get_if<std::int64_t>()) {
    out += base::concat("i", *integer, ";");
  } else if (const auto* large = json.get_if<std::uint64_t>()) {
    out += base::concat("i", *large, ";");
  } else if (const auto* number = json.get_if<double>()) {
    out += base::concat("d", *number, ";");
  } else if (const auto* text = json.get_if<std::string>()) {
    write_text(*text);
  } else if (const auto* items = json.get_if<Json::Array>()) {
    out += base::concat("a", items->size(), ";");
    for (const auto& item : *items) write_canonical(out, item);
  } else if (const auto* members = json.get_if<Json::Object>()) {
    out += base::concat("o", members->size(), ";");
    for (const auto& [name, value] : *members) {
      write_text(name);
      write_canonical(out, value);
    }
  }
}

std::string key_of(const std::vector<CustomLossInput>& inputs, const CustomLossGraph& graph) {
  Json::Array all;
  for (const auto& input : inputs) all.emplace_back(Json::Array{input.name, input.rank});
  for (const auto& node : graph.nodes) {
    Json::Object kwargs;
    for (const auto& [name, argument] : node.kwargs) kwargs.emplace_back(name, argument);
    all.emplace_back(Json::Array{
        to_string(node.op), node.name, node.target, Json::Array(node.args), std::move(kwargs)});
  }
  std::string text;
  write_canonical(text, Json(std::move(all)));
  return base::sha256_hex(text);
}

/// More than any datum holds, little enough to allocate.
constexpr std::size_t kMaxInputElements = std::size_t{1} << 26;

/// A datum's tensor as numbers, checked against the rank that the formula declares.
Result<eval::Tensor> read_tensor(const TensorData& data, std::int64_t rank) {
  const auto given =
      data.shape().value_or(TensorData::Shape{static_cast<std::int64_t>(data.size())});
  if (given.size() != static_cast<std::size_t>(rank)) {
    return eval::bad_shape(base::concat("rank ", rank), given);
  }
  TINKER_TRY(const std::size_t count, eval::element_count(given));
  if (count > kMaxInputElements) return eval::bad_shape("fewer elements", given);
  TINKER_TRY(data.validate());
  TINKER_TRY(const TensorData dense, data.to_dense());
  eval::Tensor out = {.shape = given};
  const auto copy = [&](const auto& values) { out.values.assign(values.begin(), values.end()); };
  if (dense.dtype() == TensorDtype::int64) {
    out.dtype = eval::Dtype::integer;
    for (const auto value : dense.ints()) out.values.push_back(static_cast<double>(value));
  } else {
    copy(dense.floats());
  }
  return out;
}

Result<Output> run_body(const std::function<Output(const Inputs&)>& body, const Inputs& inputs) {
  try {
    return body(inputs);
  } catch (const std::exception& thrown) {
    return Error{.code = ErrorCode::internal,
                 .message = base::concat("the formula threw: ", thrown.what())};
  } catch (...) {
    return Error{.code = ErrorCode::internal, .message = "the formula threw"};
  }
}

}  // namespace

struct Formula::State {
  std::string name;
  std::vector<CustomLossInput> inputs;
  CustomLossGraph graph;
  std::string key;
  eval::Program program;
};

Result<Formula> Formula::define(std::string name,
                                std::vector<CustomLossInput> inputs,
                                const std::function<Output(const Inputs&)>& body) {
  if (auto checked = eval::check_inputs(inputs); !checked) {
    return checked.error().with_context(base::concat("loss '", name, "'"));
  }
  const auto builder = detail::Builder::begin(inputs);
  auto output = run_body(body, detail::Builder::inputs_of(builder));
  if (!output) return output.error().with_context(base::concat("loss '", name, "'"));
  auto graph = builder->finish(*output);
  if (!graph) return graph.error().with_context(base::concat("loss '", name, "'"));
  return from_graph(std::move(name), std::move(inputs), *std::move(graph));
}

Result<Formula> Formula::from_graph(std::string name,
                                    std::vector<CustomLossInput> inputs,
                                    CustomLossGraph graph) {
  auto program = eval::Program::compile(inputs, graph);
  if (!program) {
    return program.error().with_context(
        base::concat("loss '", std::string_view(name).substr(0, 96), "'"));
  }
  std::string key = key_of(inputs, graph);
  return Formula(std::make_shared<const State>(State{.name = std::move(name),
                                                     .inputs = std::move(inputs),
                                                     .graph = std::move(graph),
                                                     .key = std::move(key),
                                                     .program = *std::move(program)}));
}

Result<Evaluation> Formula::evaluate(const TensorData& logprobs, const NamedTensors& inputs) const {
  std::vector<eval::Tensor> tensors;
  for (std::size_t i = 0; i < state_->inputs.size(); ++i) {
    const auto& [name, rank] = state_->inputs[i];
    const auto found = inputs.find(name);
    if (i > 0 && found == inputs.end()) {
      return eval::invalid(base::concat("input '", name, "' is missing"))
          .with_context(base::concat("loss '", state_->name, "'"));
    }
    auto tensor = read_tensor(i == 0 ? logprobs : found->second, rank);
    if (!tensor) {
      return tensor.error()
          .with_context(base::concat("input '", name, "'"))
          .with_context(base::concat("loss '", state_->name, "'"));
    }
    tensors.push_back(*std::move(tensor));
  }
  auto shape = tensors[0].shape;
  auto outcome = state_->program.run(std::move(tensors));
  if (!outcome) return outcome.error().with_context(base::concat("loss '", state_->name, "'"));
  Evaluation out = {
      .loss = outcome->loss, .metrics = std::move(outcome->metrics), .shape = std::move(shape)};
  for (const double slope : outcome->gradient) out.gradient.push_back(static_cast<float>(slope));
  return out;
}

const std::string& Formula::name() const noexcept {
  return state_->name;
}
const std::vector<CustomLossInput>& Formula::inputs() const noexcept {
  return state_->inputs;
}
const CustomLossGraph& Formula::graph() const noexcept {
  return state_->graph;
}
const std::string& Formula::key() const noexcept {
  return state_->key;
}

std::vector<std::string> supported_operations() {
  return eval::OpTable::instance().names();
}

}  // namespace tinker::loss
