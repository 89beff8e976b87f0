#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/loss.h"

namespace tinker::loss::detail {

/// Collects the nodes of one formula while its body runs.
class Builder : public std::enable_shared_from_this<Builder> {
 public:
  /// A builder with a placeholder per input.
  static std::shared_ptr<Builder> begin(std::span<const CustomLossInput> inputs);

  /// Adds a node; of arguments that belong to no formula or to several comes an error instead.
  static Value call(std::string_view target,
                    std::span<const Value> arguments,
                    std::span<const std::pair<std::string, Value>> keywords);
  /// x[index] with an encoded index.
  static Value index(const Value& x, Json index);

  static Inputs inputs_of(std::shared_ptr<Builder> builder) { return Inputs(std::move(builder)); }
  Value input(std::string_view name);
  /// The finished graph, or the first mistake.
  Result<CustomLossGraph> finish(const Output& output);

 private:
  static std::shared_ptr<Builder> owner_of(std::span<const Value> arguments,
                                           std::span<const std::pair<std::string, Value>> keywords);
  Value add(std::string_view target,
            std::vector<Json> arguments,
            std::map<std::string, Json, std::less<>> keywords);
  void fail(std::string message);
  std::string fresh_name(std::string_view base);

  CustomLossGraph graph_;
  std::map<std::string, int, std::less<>> names_;  // how often each was asked for
  std::optional<Error> error_;
};

}  // namespace tinker::loss::detail
