#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tinker::server {

/// Which numbers of samples a client may wait for, so that a later life of the server can tell it
/// that they are lost. Journals say it in blocks: a range has every number that was accepted and
/// whose result the client has not fetched, and some more. Loop thread only.
class SampleNumbers {
 public:
  /// Whose batched poll announces the samples: a sampling session and a clone of it.
  struct Target {
    std::string sampler_id = {};
    std::int64_t clone = 0;
    friend auto operator<=>(const Target&, const Target&) = default;
  };
  struct Range {
    std::int64_t first = 0;
    std::int64_t end = 0;  ///< Behind the last one.
    friend bool operator==(const Range&, const Range&) = default;
  };
  /// Ranges begin and end at multiples of this, or where those of a clone do.
  static constexpr std::int64_t kBlock = 1024;

  /// Before the number is accepted: the range that the journal shall have now, if it has another.
  /// `is_awaited` says whether a number was accepted and the client has not got its result.
  std::optional<Range> enter(const Target& target,
                             std::int64_t number,
                             const std::function<bool(std::int64_t)>& is_awaited);
  /// The journal of an earlier life says so.
  void found(Target target, Range range);
  /// What an earlier life may not have answered; nothing the second time.
  Range take_lost(const Target& target);
  /// Of a session that is over.
  void forget(std::string_view session_id);

 private:
  struct Known {
    Range journalled = {};
    Range lost = {};
  };
  std::map<Target, Known> known_ = {};
};

}  // namespace tinker::server
