#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tinker::server {

/// The lines that the log has of refused keys: the first at once, then one for each period with
/// more of them. So nobody can fill the log by guessing. Never has a word of the keys.
class RefusedKeys {
 public:
  /// `peer`: "127.0.0.1:50000" or "unix". Gives the line to write now, if there is one.
  std::optional<std::string> add(std::string_view peer);
  /// At the end of each period. Gives the line to write then, if there is one.
  std::optional<std::string> end_period();

 private:
  bool is_told_ = false;  // a line was written in this period
  std::size_t more_ = 0;  // since the last line
  std::string last_ = {};
};

}  // namespace tinker::server
