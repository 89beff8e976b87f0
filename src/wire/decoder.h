#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tinker/error.h"
#include "wire/json_reader.h"
#include "wire/path.h"

namespace tinker::wire {

/// How to treat members of a request that this library does not know.
enum class Policy {
  strict,   ///< As the official models: refuse them.
  lenient,  ///< For a server that meets newer clients: report them, refuse only what would change
            ///< the arithmetic. Members the official client leaves out when null may be missing.
};

/// Who a document is for.
enum class Direction { request, response };

struct DecodeOptions {
  Policy policy = Policy::strict;
  /// Receives the paths of unknown members that were passed over in a request.
  std::vector<std::string>* unknown_members = nullptr;
};

/// The state of reading one document: where we are, what went wrong first.
///
/// Readers return false after `fail`; nothing is thrown.
class Decoder {
 public:
  Decoder(Direction direction, DecodeOptions options) : direction_(direction), options_(options) {}

  bool fail(std::string message) {
    if (!error_) {
      error_ = Error{.code = direction_ == Direction::request ? ErrorCode::invalid_argument
                                                              : ErrorCode::invalid_response,
                     .message = base::concat(path_.to_string(), ": ", message)};
    }
    return false;
  }
  bool fail_expected(std::string_view expected, JsonView found) {
    return fail(base::concat("expected ", expected, ", found ", found.kind_name()));
  }
  void report_unknown() {
    if (options_.unknown_members != nullptr) options_.unknown_members->push_back(path_.to_string());
  }

  [[nodiscard]] bool is_response() const noexcept { return direction_ == Direction::response; }
  [[nodiscard]] bool is_lenient() const noexcept { return options_.policy == Policy::lenient; }
  [[nodiscard]] Direction direction() const noexcept { return direction_; }
  [[nodiscard]] Path& path() noexcept { return path_; }
  /// How many members the object read last had that its schema knows.
  [[nodiscard]] std::size_t& member_count() noexcept { return member_count_; }
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }
  [[nodiscard]] Error take_error() && { return error_ ? *std::move(error_) : Error(); }

  /// Another decoder at the same place, whose failures and reports can be thrown away.
  [[nodiscard]] Decoder attempt() const {
    Decoder copy = *this;
    copy.options_.unknown_members = nullptr;
    return copy;
  }

 private:
  Direction direction_;
  DecodeOptions options_;
  Path path_;
  std::size_t member_count_ = 0;
  std::optional<Error> error_;
};

}  // namespace tinker::wire
