#include "loss/builder.h"

#include <array>
#include <cmath>
#include <string_view>

#include "base/strings.h"
#include "loss/graph_reader.h"

namespace tinker::loss::detail {
namespace {

Json object(std::string_view kind, Json content) {
  return Json::Object{{std::string(kind), std::move(content)}};
}

/// A number that JSON cannot write travels by name.
Json encode(const Json& argument) {
  const auto* number = argument.get_if<double>();
  if (number == nullptr || std::isfinite(*number)) return argument;
  if (std::isnan(*number)) return object("float", "nan");
  return object("float", *number > 0.0 ? "inf" : "-inf");
}

/// torch.fx names no node like a function of Python's own.
constexpr std::array<std::string_view, 12> kPythonNames = {
    "abs", "all", "any", "bool", "float", "int", "max", "min", "pow", "round", "slice", "sum"};

/// What an operation on numbers alone gives: it has no formula to go into.
Json orphan() {
  return object("orphan", nullptr);
}

}  // namespace

std::shared_ptr<Builder> Builder::begin(std::span<const CustomLossInput> inputs) {
  auto builder = std::make_shared<Builder>();
  for (const auto name : kPythonNames) builder->names_[std::string(name)] = 1;
  for (const auto& input : inputs) {
    builder->names_[input.name] = 1;
    builder->graph_.nodes.push_back(
        {.op = CustomLossOp::placeholder, .name = input.name, .target = input.name});
  }
  return builder;
}

void Builder::fail(std::string message) {
  if (!error_) error_ = eval::invalid(std::move(message));
}

std::string Builder::fresh_name(std::string_view base) {
  std::string name(base);
  for (int count = names_[name]++; count > 0 && names_.contains(name);) {
    name = base::concat(base, "_", count++);
  }
  names_.emplace(name, 1);
  return name;
}

std::shared_ptr<Builder> Builder::owner_of(
    std::span<const Value> arguments, std::span<const std::pair<std::string, Value>> keywords) {
  std::shared_ptr<Builder> owner;
  const auto meet = [&](const Value& value) {
    if (value.builder_ == nullptr || value.builder_ == owner) return;
    if (owner != nullptr) {
      owner->fail("values of two formulas meet in one expression");
      value.builder_->fail("values of two formulas meet in one expression");
    }
    owner = value.builder_;
  };
  for (const auto& argument : arguments) meet(argument);
  for (const auto& [name, value] : keywords) meet(value);
  return owner;
}

Value Builder::add(std::string_view target,
                   std::vector<Json> arguments,
                   std::map<std::string, Json, std::less<>> keywords) {
  const bool is_method = target.find('.') == std::string_view::npos;
  std::string name = fresh_name(target.substr(target.rfind('.') + 1));
  if (graph_.nodes.size() >= eval::kMaxNodes) {
    fail(base::concat("more than ", eval::kMaxNodes, " nodes"));
  } else {
    graph_.nodes.push_back(
        {.op = is_method ? CustomLossOp::call_method : CustomLossOp::call_function,
         .name = name,
         .target = std::string(target),
         .args = std::move(arguments),
         .kwargs = std::move(keywords)});
  }
  return {shared_from_this(), object("ref", std::move(name))};
}

Value Builder::call(std::string_view target,
                    std::span<const Value> arguments,
                    std::span<const std::pair<std::string, Value>> keywords) {
  const auto owner = owner_of(arguments, keywords);
  if (owner == nullptr) return {nullptr, orphan()};
  const auto encoded = [&](const Value& value) {
    if (value.argument_ == orphan())
      owner->fail("an operation on plain numbers: compute it in C++");
    return encode(value.argument_);
  };
  std::vector<Json> positional;
  for (const auto& argument : arguments) positional.push_back(encoded(argument));
  std::map<std::string, Json, std::less<>> named;
  for (const auto& [name, value] : keywords) named[name] = encoded(value);
  return owner->add(target, std::move(positional), std::move(named));
}

Value Builder::index(const Value& x, Json index) {
  if (x.builder_ == nullptr) return {nullptr, orphan()};
  return x.builder_->add("operator.getitem", {x.argument_, std::move(index)}, {});
}

Value Builder::input(std::string_view name) {
  for (const auto& node : graph_.nodes) {
    if (node.op == CustomLossOp::placeholder && node.target == name) {
      return {shared_from_this(), object("ref", node.name)};
    }
  }
  fail(base::concat("the formula has no input '", name, "'"));
  return {shared_from_this(), nullptr};
}

Result<CustomLossGraph> Builder::finish(const Output& output) {
  const auto check = [&](const Value& value, std::string_view what) {
    if (value.builder_.get() != this)
      fail(base::concat(what, " is not made of the formula's inputs"));
  };
  check(output.loss, "the loss");
  Json::Object metrics;
  for (const auto& [name, value] : output.metrics) {
    check(value, base::concat("metric '", name, "'"));
    metrics.emplace_back(name, value.argument_);
  }
  if (error_) return *error_;
  graph_.nodes.push_back(
      {.op = CustomLossOp::output,
       .name = fresh_name("output"),
       .target = "output",
       .args = {object("tuple",
                       Json::Array{output.loss.argument_, object("dict", std::move(metrics))})}});
  return std::move(graph_);
}

}  // namespace tinker::loss::detail

namespace tinker::loss {

Value call(std::string_view target,
           std::span<const Value> arguments,
           std::span<const std::pair<std::string, Value>> keywords) {
  return detail::Builder::call(target, arguments, keywords);
}
Value call(std::string_view target, std::initializer_list<Value> arguments) {
  return call(target, std::span(arguments.begin(), arguments.size()));
}

Value Inputs::operator[](std::string_view name) const {
  return builder_->input(name);
}

Value Value::operator[](std::int64_t index) const {
  return detail::Builder::index(*this, index);
}

Value operator+(const Value& a, const Value& b) {
  return call("operator.add", {a, b});
}
Value operator-(const Value& a, const Value& b) {
  return call("operator.sub", {a, b});
}
Value operator*(const Value& a, const Value& b) {
  return call("operator.mul", {a, b});
}
Value operator/(const Value& a, const Value& b) {
  return call("operator.truediv", {a, b});
}
Value operator-(const Value& a) {
  return call("operator.neg", {a});
}
Value operator<(const Value& a, const Value& b) {
  return call("operator.lt", {a, b});
}
Value operator<=(const Value& a, const Value& b) {
  return call("operator.le", {a, b});
}
Value operator>(const Value& a, const Value& b) {
  return call("operator.gt", {a, b});
}
Value operator>=(const Value& a, const Value& b) {
  return call("operator.ge", {a, b});
}
Value eq(const Value& a, const Value& b) {
  return call("operator.eq", {a, b});
}
Value ne(const Value& a, const Value& b) {
  return call("operator.ne", {a, b});
}
Value operator&(const Value& a, const Value& b) {
  return call("operator.and_", {a, b});
}
Value operator|(const Value& a, const Value& b) {
  return call("operator.or_", {a, b});
}
Value operator~(const Value& a) {
  return call("operator.invert", {a});
}

Value exp(const Value& x) {
  return call("torch.exp", {x});
}
Value expm1(const Value& x) {
  return call("torch.expm1", {x});
}
Value log(const Value& x) {
  return call("torch.log", {x});
}
Value log1p(const Value& x) {
  return call("torch.log1p", {x});
}
Value sqrt(const Value& x) {
  return call("torch.sqrt", {x});
}
Value square(const Value& x) {
  return call("torch.square", {x});
}
Value pow(const Value& x, const Value& exponent) {
  return call("operator.pow", {x, exponent});
}
Value abs(const Value& x) {
  return call("torch.abs", {x});
}
Value sigmoid(const Value& x) {
  return call("torch.sigmoid", {x});
}
Value logsigmoid(const Value& x) {
  return call("torch._C._nn.log_sigmoid", {x});
}
Value softplus(const Value& x) {
  return call("torch._C._nn.softplus", {x});
}
Value tanh(const Value& x) {
  return call("torch.tanh", {x});
}
Value relu(const Value& x) {
  return call("torch.relu", {x});
}
Value min(const Value& a, const Value& b) {
  return call("torch.minimum", {a, b});
}
Value max(const Value& a, const Value& b) {
  return call("torch.maximum", {a, b});
}
Value clamp(const Value& x, const Value& low, const Value& high) {
  return call("torch.clamp", {x, low, high});
}
Value where(const Value& condition, const Value& a, const Value& b) {
  return call("torch.where", {condition, a, b});
}
Value detach(const Value& x) {
  return call("detach", {x});
}
Value to_float(const Value& x) {
  return call("float", {x});
}
Value sum(const Value& x) {
  return call("sum", {x});
}
Value mean(const Value& x) {
  return call("mean", {x});
}
Value sum(const Value& x, std::int64_t axis) {
  return call("sum", {x, axis});
}
Value mean(const Value& x, std::int64_t axis) {
  return call("mean", {x, axis});
}
Value logsumexp(const Value& x, std::int64_t axis) {
  return call("torch.logsumexp", {x, axis});
}
Value softmax(const Value& x, std::int64_t axis) {
  return call("torch.softmax", {x, axis});
}
Value log_softmax(const Value& x, std::int64_t axis) {
  return call("torch.log_softmax", {x, axis});
}
Value cumsum(const Value& x, std::int64_t axis) {
  return call("torch.cumsum", {x, axis});
}
Value slice(const Value& x, std::int64_t first, std::int64_t last) {
  return detail::Builder::index(x, Json::Object{{"slice", Json::Array{first, last, nullptr}}});
}
Value column(const Value& x, std::int64_t index) {
  return detail::Builder::index(
      x,
      Json::Object{
          {"tuple",
           Json::Array{Json::Object{{"slice", Json::Array{nullptr, nullptr, nullptr}}}, index}}});
}
Value unsqueeze(const Value& x, std::int64_t axis) {
  return call("torch.unsqueeze", {x, axis});
}

}  // namespace tinker::loss
