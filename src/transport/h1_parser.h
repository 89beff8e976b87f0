#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tinker/result.h"
#include "transport/exchange.h"

namespace tinker::http {

/// Reads one HTTP/1.1 answer into an `Exchange`, from pieces of any size. Interim answers (1xx) are
/// passed over.
class H1Parser {
 public:
  enum class Expect { message, head_only };

  /// `exchange` must outlive it. With `head_only` the body belongs to somebody else, as after
  /// CONNECT.
  H1Parser(Exchange& exchange, HeadLimits limits, Expect expect);
  H1Parser(const H1Parser&) = delete;
  H1Parser& operator=(const H1Parser&) = delete;
  ~H1Parser();

  /// Takes bytes from the peer. What follows the complete answer comes back, valid until the next
  /// call or the end of `bytes`. No more calls once `is_complete()` or after an error.
  Result<std::string_view> put(std::string_view bytes);
  /// The peer will send no more: completes an answer that ends so, else says what is missing.
  Result<void> end();

  [[nodiscard]] bool is_complete() const noexcept;
  /// Whether the connection may carry another request. Requires `is_complete()`.
  [[nodiscard]] bool is_kept_alive() const noexcept;

 private:
  class Parser;
  Result<void> parse(std::string_view& bytes);
  void begin();

  Exchange& exchange_;
  HeadLimits limits_;
  Expect expect_;
  std::unique_ptr<Parser> parser_;
  std::string pending_;  // the start of something the parser wants to see whole
  int interim_answers_ = 0;
};

}  // namespace tinker::http
