#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/h2_session.h"
#include "transport/exchange.h"

namespace tinker::http {

/// HTTP/2: many exchanges at a time, each a stream.
class H2ClientSession final : public Codec {
 public:
  struct Options {
    HeadLimits limits = {};
    /// Streams at a time, whatever the server allows beyond.
    std::size_t max_streams = 1000;
  };

  explicit H2ClientSession(Options options);
  ~H2ClientSession() override;

  [[nodiscard]] std::size_t capacity() const override;
  [[nodiscard]] std::size_t in_flight() const override {
    return slots_.size() - free_slots_.size();
  }
  [[nodiscard]] std::optional<std::size_t> peer_limit() const override;
  void assume_peer_limit(std::size_t limit) override { assumed_limit_ = limit; }
  [[nodiscard]] bool is_spent() const override;
  [[nodiscard]] bool has_room() const override;

  void start(std::shared_ptr<Exchange> exchange, TimePoint now) override;
  /// Resets its stream; the others go on.
  void cancel(Exchange& exchange) override;
  [[nodiscard]] std::string_view output(TimePoint now) override;
  void wrote(std::size_t bytes, TimePoint now) override;
  void receive(std::string_view bytes, TimePoint now) override;
  void end(const std::optional<Error>& error) override;

 private:
  struct Calls;  // what nghttp2 calls

  void begin_session();
  std::int32_t submit(const Exchange& exchange);
  /// Null for a stream whose exchange has ended.
  [[nodiscard]] Exchange* find(std::int32_t stream_id) const;
  /// Takes it out of the session; its stream goes on alone.
  std::shared_ptr<Exchange> release(const Exchange& exchange);
  void reset_stream(std::int32_t id);
  [[nodiscard]] bool is_untouched(const Exchange& exchange) const;
  void complete(Exchange& exchange);
  void refuse(Exchange& exchange, Error error);
  void on_head(Exchange& exchange);
  void on_settings();
  void on_go_away(std::int32_t last_stream_id);
  void on_closed(Exchange& exchange, std::uint32_t error_code);

  Options options_;
  H2SessionPtr session_;
  // nghttp2 knows an exchange by its slot alone, so that it can never reach one that is gone.
  std::vector<std::shared_ptr<Exchange>> slots_;
  std::vector<std::size_t> free_slots_;
  std::size_t sinks_ = 0;  // exchanges whose bodies go elsewhere
  H2Output out_;
  std::size_t assumed_limit_ = 100;  // as recommended (RFC 9113, section 6.5.2)
  TimePoint now_ = {};
  std::uint64_t received_ = 0;  // bytes, ever
  bool was_used_ = false;       // at least one answer came
  bool has_settings_ = false;
  bool is_going_away_ = false;
  bool is_ended_ = false;
  std::string violation_;  // what the peer did against the protocol
};

}  // namespace tinker::http
