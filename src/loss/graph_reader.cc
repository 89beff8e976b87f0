#include "loss/graph_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/strings.h"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss::eval {
namespace {

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// `[a-z_][a-z0-9_]{0,63}`
bool is_input_name(std::string_view name) {
  if (name.empty() || name.size() > 64 || is_digit(name[0])) return false;
  return std::ranges::all_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

/// For messages: names come from strangers.
std::string shown(std::string_view text) {
  return base::concat("'", text.substr(0, 96), "'");
}

Result<Dtype> read_dtype(std::string_view name) {
  struct Row {
    std::string_view name;
    Dtype dtype;
  };
  constexpr std::array<Row, 13> kDtypes = {{{"float32", Dtype::floating},
                                            {"float", Dtype::floating},
                                            {"float64", Dtype::floating},
                                            {"double", Dtype::floating},
                                            {"float16", Dtype::floating},
                                            {"half", Dtype::floating},
                                            {"bfloat16", Dtype::floating},
                                            {"int64", Dtype::integer},
                                            {"long", Dtype::integer},
                                            {"int32", Dtype::integer},
                                            {"int", Dtype::integer},
                                            {"int16", Dtype::integer},
                                            {"bool", Dtype::boolean}}};
  const auto* const found = std::ranges::find(kDtypes, name, &Row::name);
  if (found == kDtypes.end()) return invalid("unknown dtype " + shown(name));
  return found->dtype;
}

Answer read_float(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return Number{.value = kInfinity};
  if (text == "-inf") return Number{.value = -kInfinity};
  if (text == "nan") return Number{.value = std::numeric_limits<double>::quiet_NaN()};
  return invalid("expected inf, -inf or nan, found " + shown(text));
}

Result<std::size_t> find_ref(const NodeIndex& nodes, const Json* argument) {
  const auto* name = argument == nullptr ? nullptr : argument->get_if<std::string>();
  if (name == nullptr) return invalid("expected the name of a node in a ref");
  const auto found = nodes.find(*name);
  if (found == nodes.end()) return invalid(shown(*name) + " is not the name of an earlier node");
  return found->second;
}

}  // namespace

bool is_metric_name(std::string_view name) {
  constexpr std::string_view kPrefix = "custom/";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const auto colon = name.rfind(':');
  if (colon == std::string_view::npos || colon < 1 || colon > 64) return false;
  const auto suffix = name.substr(colon + 1);
  return (suffix == "sum" || suffix == "mean") &&
         std::ranges::all_of(name.substr(0, colon), [](char c) {
           return is_lower(c) || is_digit(c) || c == '_' || c == '.' || c == '/' || c == '-';
         });
}

Result<void> check_inputs(std::span<const CustomLossInput> inputs) {
  if (inputs.empty() || inputs[0].name != "logprobs") {
    return invalid("expected the first input to be 'logprobs', found " +
                   (inputs.empty() ? "none" : shown(inputs[0].name)));
  }
  if (inputs.size() > kMaxInputs) {
    return invalid(base::concat("expected at most ", kMaxInputs, " inputs, found ", inputs.size()));
  }
  std::set<std::string_view> seen;
  for (const auto& [name, rank] : inputs) {
    if (!is_input_name(name)) {
      return invalid(base::concat("expected an input name of a-z, 0-9 and _, found ", shown(name)));
    }
    if (!seen.insert(name).second)
      return invalid(base::concat("input ", shown(name), " comes twice"));
    const std::int64_t least = name == "logprobs" ? 1 : 0;
    if (rank < least || rank > 2) {
      return invalid(
          base::concat("expected rank ", least, " to 2 of input ", shown(name), ", found ", rank));
    }
  }
  return {};
}

Result<std::vector<Value>> ArgumentReader::read_items(const Json& list, int depth) {
  const auto* items = list.get_if<Json::Array>();
  if (items == nullptr) return invalid("expected a list of arguments");
  std::vector<Value> out;
  for (const auto& item : *items) {
    TINKER_TRY(Value value, read(item, depth + 1));
    out.push_back(std::move(value));
  }
  return out;
}

Answer ArgumentReader::read_object(const Json::Member& member, int depth) {
  const auto& [kind, content] = member;
  if (kind == "ref") {
    TINKER_TRY(const std::size_t node, find_ref(*nodes_, &content));
    return Ref{node};
  }
  if (kind == "tuple") {
    TINKER_TRY(auto items, read_items(content, depth));
    return Sequence{.items = std::move(items)};
  }
  if (kind == "slice") {
    TINKER_TRY(auto bounds, read_items(content, depth));
    if (bounds.size() != 3)
      return invalid(base::concat("expected 3 bounds of a slice, found ", bounds.size()));
    return SliceRange{.bounds = std::move(bounds)};
  }
  if (kind == "ellipsis") return Ellipsis{};
  const auto* text = content.get_if<std::string>();
  if (text != nullptr && kind == "float") return read_float(*text);
  if (text != nullptr && kind == "dtype") {
    TINKER_TRY(const Dtype dtype, read_dtype(*text));
    return dtype;
  }
  if (text != nullptr && (kind == "device" || kind == "layout" || kind == "memory_format")) {
    return Place{*text};
  }
  return invalid(base::concat("unknown argument of kind ", shown(kind)));
}

Answer ArgumentReader::read(const Json& argument, int depth) {
  constexpr int kMaxDepth = 8;
  if (depth > kMaxDepth)
    return invalid(base::concat("arguments are nested deeper than ", kMaxDepth));
  if (++count_ > kMaxArguments)
    return invalid(base::concat("more than ", kMaxArguments, " arguments"));
  if (argument.is_null()) return Value();
  if (const auto* truth = argument.get_if<bool>()) {
    return Number{.value = *truth ? 1.0 : 0.0, .dtype = Dtype::boolean};
  }
  if (const auto* integer = argument.get_if<std::int64_t>()) return integer_value(*integer);
  if (const auto* large = argument.get_if<std::uint64_t>()) {
    return Number{.value = static_cast<double>(*large), .dtype = Dtype::integer};
  }
  if (const auto* number = argument.get_if<double>()) return Number{.value = *number};
  if (const auto* text = argument.get_if<std::string>()) return *text;
  if (argument.get_if<Json::Array>() != nullptr) {
    TINKER_TRY(auto items, read_items(argument, depth));
    return Sequence{.items = std::move(items), .is_list = true};
  }
  const auto* object = argument.get_if<Json::Object>();
  if (object == nullptr || object->size() != 1)
    return invalid("expected an object with one member");
  return read_object(object->front(), depth);
}

Result<Outputs> read_outputs(const CustomLossNode& node, const NodeIndex& nodes) {
  const Json* pair = node.args.size() == 1 ? node.args.data() : nullptr;
  if (pair != nullptr && pair->find("tuple") != nullptr) pair = pair->find("tuple");
  const auto* items = pair == nullptr ? nullptr : pair->get_if<Json::Array>();
  if (items == nullptr || items->size() != 2) {
    return invalid("expected the output to be a pair of loss and metrics");
  }
  const Json* loss = (*items)[0].find("ref");
  if (loss == nullptr) return invalid("expected the loss to be the value of a node");
  Outputs outputs;
  TINKER_TRY(outputs.loss, find_ref(nodes, loss));
  const Json* dict = (*items)[1].find("dict");
  const auto* metrics = dict == nullptr ? nullptr : dict->get_if<Json::Object>();
  if (metrics == nullptr) return invalid("expected the metrics to be a dict");
  for (const auto& [name, value] : *metrics) {
    if (!is_metric_name(name)) {
      return invalid("expected a metric name like custom/name:sum or custom/name:mean, found " +
                     shown(name));
    }
    const Json* ref = value.find("ref");
    if (ref == nullptr)
      return invalid("expected metric " + shown(name) + " to be the value of a node");
    TINKER_TRY(outputs.metrics[name], find_ref(nodes, ref));
  }
  return outputs;
}

}  // namespace tinker::loss::eval
// NOLINTEND(modernize-use-designated-initializers)
