#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tinker::load_server {

/// The id for a training request, or nothing when `path` is for something else. The id says what
/// the result is, so that a poll needs no memory.
std::optional<std::string> training_id(std::string_view path,
                                       const std::string& body,
                                       std::uint64_t number);

/// A result, in JSON or protobuf as its type demands.
struct TrainingResult {
  std::string body = {};
  bool is_protobuf = false;
};

/// The result behind an id that `training_id` made; nothing for any other. All data of a
/// forward_backward count as being as long as the first.
std::optional<TrainingResult> training_result(std::string_view id);

}  // namespace tinker::load_server
