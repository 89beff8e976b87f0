#pragma once

#include <memory>
#include <string>

#include "transport/exchange.h"
#include "transport/h1_parser.h"
#include "transport/proxy.h"

namespace tinker::http {

/// HTTP/1.1: one exchange at a time.
class H1ClientCodec final : public Codec {
 public:
  /// With `proxy`, requests are addressed to it and name their server in full.
  explicit H1ClientCodec(HeadLimits limits, const Proxy* proxy = nullptr)
      : limits_(limits), proxy_(proxy) {}

  [[nodiscard]] std::size_t capacity() const override { return !is_spent_ && !exchange_ ? 1 : 0; }
  [[nodiscard]] std::size_t in_flight() const override { return exchange_ ? 1 : 0; }
  [[nodiscard]] bool is_spent() const override { return is_spent_; }
  [[nodiscard]] bool has_room() const override { return !exchange_ || http::has_room(*exchange_); }

  void start(std::shared_ptr<Exchange> exchange, TimePoint now) override;
  void cancel(Exchange& exchange) override;
  [[nodiscard]] std::string_view output(TimePoint now) override;
  void wrote(std::size_t bytes, TimePoint now) override;
  void receive(std::string_view bytes, TimePoint now) override;
  void end(const std::optional<Error>& error) override;

 private:
  void write_head();
  void fail(Error error, bool is_untouched);
  std::shared_ptr<Exchange> release();

  HeadLimits limits_;
  const Proxy* proxy_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<H1Parser> parser_;
  std::string head_;  // and a small body with it
  std::size_t head_sent_ = 0;
  bool has_received_ = false;  // anything of the current answer
  bool was_used_ = false;
  bool is_spent_ = false;
};

}  // namespace tinker::http
