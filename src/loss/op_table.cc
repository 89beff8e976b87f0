#include "loss/op_table.h"

#include <array>

#include "base/strings.h"

namespace tinker::loss::eval {
namespace {

/// Homes of torch's functions. What follows the prefix is the name; the longest prefix that fits is
/// the right one, so shorter ones come last.
constexpr std::array<std::string_view, 9> kPrefixes = {
    "torch._C._special.special_",
    "torch._C._linalg.",
    "torch._C._nn.",
    "torch.nn.functional.",
    "torch.functional.",
    "torch.special.",
    "torch._tensor.",
    "torch.",
    "math.",
};

}  // namespace

const OpTable& OpTable::instance() {
  static const OpTable table = [] {
    OpTable made;
    for (const auto add : {add_arithmetic,
                           add_functions,
                           add_logic,
                           add_reductions,
                           add_extremes,
                           add_shapes,
                           add_creation,
                           add_losses,
                           add_linear,
                           add_indexing}) {
      add(made);
    }
    return made;
  }();
  return table;
}

void OpTable::add(Where where, std::string_view names, std::string_view signature, Function run) {
  const auto operation = std::make_shared<const Operation>(
      Operation{.parameters = parse_signature(signature), .run = std::move(run)});
  while (!names.empty()) {
    const auto end = std::min(names.find('|'), names.size());
    const std::string name(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
    if (where == Where::operation) operators_[name] = operation;
    if (where == Where::function || where == Where::both) functions_[name] = operation;
    if (where == Where::method || where == Where::both) methods_[name] = operation;
  }
}

const Operation* OpTable::find(const Names& names, std::string_view name) {
  const auto found = names.find(name);
  return found == names.end() ? nullptr : found->second.get();
}

const Operation* OpTable::find_function(std::string_view target) const {
  constexpr std::string_view kOperator = "operator.";
  if (target.starts_with(kOperator)) return find(operators_, target.substr(kOperator.size()));
  if (target == "getattr" || target == "builtins.getattr") return find(operators_, "getattr");
  for (const auto prefix : kPrefixes) {
    if (target.starts_with(prefix)) return find(functions_, target.substr(prefix.size()));
  }
  return nullptr;
}

const Operation* OpTable::find_method(std::string_view target) const {
  return find(methods_, target);
}

std::vector<std::string> OpTable::names() const {
  std::vector<std::string> out;
  for (const auto& [name, operation] : methods_) out.push_back("Tensor." + name);
  for (const auto& [name, operation] : operators_) {
    out.push_back(name == "getattr" ? name : "operator." + name);
  }
  for (const auto& [name, operation] : functions_) out.push_back("torch." + name);
  return out;
}

}  // namespace tinker::loss::eval
