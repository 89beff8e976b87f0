#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tinker::wire {

/// Which model a request is for, and its number among that model's requests.
struct RequestNumber {
  std::string model_id = {};
  std::int64_t seq_id = 0;

  friend bool operator==(const RequestNumber&, const RequestNumber&) = default;
};

/// What can be told of a request even when the rest of it makes no sense. Nothing if `body` is no
/// JSON, or does not say both.
std::optional<RequestNumber> json_request_number(std::string_view body);
/// The same of a ForwardBackwardRequest (PROTOBUF 3): its fields 1 and 2, whatever else it has.
std::optional<RequestNumber> proto_request_number(std::string_view body);

}  // namespace tinker::wire
