#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loss/call.h"

namespace tinker::loss::eval {

/// Where a name may be used: torch.exp(x) and its aliases, x.exp(), operator.add(x, y).
enum class Where { function, method, both, operation };

struct Operation {
  std::vector<Parameter> parameters = {};
  Function run = {};
};

/// The operations that a graph may use: the allow-list. Immutable once built.
class OpTable {
 public:
  /// All that there are.
  static const OpTable& instance();

  /// `names`: one or several, separated by '|'. See `parse_signature` for `signature`.
  void add(Where where, std::string_view names, std::string_view signature, Function run);

  /// By the name of a call_function node: "operator.add", "torch.exp", "torch._C._nn.softplus",
  /// "torch.nn.functional.relu", "math.sqrt", "getattr"; null when there is none.
  [[nodiscard]] const Operation* find_function(std::string_view target) const;
  /// By the name of a call_method node: "sum".
  [[nodiscard]] const Operation* find_method(std::string_view target) const;

  /// Every name, sorted: "operator.add", "torch.exp", "Tensor.exp".
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  using Names = std::map<std::string, std::shared_ptr<const Operation>, std::less<>>;

  static const Operation* find(const Names& names, std::string_view name);

  Names functions_;
  Names methods_;
  Names operators_;
};

// Each adds one family to the table.
void add_arithmetic(OpTable& table);
void add_functions(OpTable& table);
void add_logic(OpTable& table);
void add_reductions(OpTable& table);
void add_extremes(OpTable& table);
void add_shapes(OpTable& table);
void add_creation(OpTable& table);
void add_losses(OpTable& table);
void add_linear(OpTable& table);
void add_indexing(OpTable& table);

}  // namespace tinker::loss::eval
