#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loss/value.h"
#include "tinker/types/custom_loss.h"

namespace tinker::loss::eval {

inline constexpr std::size_t kMaxInputs = 16;
inline constexpr std::size_t kMaxNodes = 4096;
inline constexpr std::size_t kMaxArguments = 65536;  ///< Of all nodes together, lists counted out.

/// Names of nodes by the order in which they come; only those that were seen already can be used.
using NodeIndex = std::map<std::string, std::size_t, std::less<>>;

/// Checks names, number and ranks of a loss's inputs (R9.5).
Result<void> check_inputs(std::span<const CustomLossInput> inputs);

/// Whether that is `custom/[a-z0-9_./-]{1,64}:(sum|mean)`.
bool is_metric_name(std::string_view name);

/// Reads encoded arguments (PROTOCOL 7.14) against the nodes seen so far, and counts them.
class ArgumentReader {
 public:
  explicit ArgumentReader(const NodeIndex& nodes) : nodes_(&nodes) {}

  Answer read(const Json& argument) { return read(argument, 0); }

 private:
  Answer read(const Json& argument, int depth);
  Answer read_object(const Json::Member& member, int depth);
  Result<std::vector<Value>> read_items(const Json& list, int depth);

  const NodeIndex* nodes_;
  std::size_t count_ = 0;
};

/// What the output node names: the loss, and metrics.
struct Outputs {
  std::size_t loss = 0;
  std::map<std::string, std::size_t, std::less<>> metrics = {};
};
Result<Outputs> read_outputs(const CustomLossNode& node, const NodeIndex& nodes);

}  // namespace tinker::loss::eval
