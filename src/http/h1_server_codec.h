#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/chunked_reader.h"
#include "http/server_codec.h"

namespace tinker::http {

/// HTTP/1.1, one request at a time: those that follow wait in `input_`, so answers keep the order
/// of the requests whatever their handlers do.
class H1ServerCodec final : public ServerCodec, private ServerExchange::Carrier {
 public:
  explicit H1ServerCodec(const Setup& setup);
  ~H1ServerCodec() override;

  void receive(std::string_view bytes) override;
  void resume() override;
  [[nodiscard]] bool has_room() const override;
  [[nodiscard]] std::string_view output() override;
  void wrote(std::size_t bytes) override;
  void end(const Error& reason) override;
  void drain() override;
  [[nodiscard]] bool is_done() const override { return is_closing_; }
  [[nodiscard]] TimePoint deadline() const override;
  void on_deadline(TimePoint now) override;

 private:
  enum class Framing { none, length, chunked };

  // ServerExchange::Carrier.
  void on_body_wanted(ServerExchange& exchange) override;
  void on_body_taken(ServerExchange& exchange, std::size_t bytes) override;
  void on_answer(ServerExchange& exchange) override;
  void on_output(ServerExchange& exchange) override;
  void on_aborted(ServerExchange& exchange, const Abort& how) override;
  void on_last(ServerExchange& exchange) override;
  [[nodiscard]] bool is_congested(const ServerExchange& exchange) const override;

  // Input. Each takes what it can use from the front of `bytes`.
  void process(std::string_view& bytes);
  bool take_head(std::string_view& bytes);
  void begin_request(std::shared_ptr<ServerExchange> exchange);
  void take_body(std::string_view& bytes);
  void take_piece(std::string_view piece);
  [[nodiscard]] bool is_reading_body() const noexcept { return framing_ != Framing::none; }
  [[nodiscard]] bool has_body_room() const noexcept;
  /// Between two requests: nothing of the next one came.
  [[nodiscard]] bool is_idle() const noexcept {
    return !exchange_ && !is_reading_body() && !is_head_begun_;
  }
  /// The client's time for the next piece of a body, or the next request, begins.
  void begin_period(TimePoint now);

  // Output.
  void refuse(const Refusal& refusal);
  void refuse_body(const Refusal& refusal);
  void write_head(const ServerExchange& exchange);
  void write_piece(ServerExchange& exchange);
  void finish_answer();
  [[nodiscard]] bool can_keep_alive(const ServerExchange& exchange) const;
  [[nodiscard]] std::size_t unsent() const noexcept { return out_.size() - out_sent_; }

  Host& host_;
  const ServerLimits& limits_;
  ServerClock& clock_;
  Peer peer_;

  HeadScanner scanner_;
  std::string input_;                         // that came and must wait
  std::shared_ptr<ServerExchange> exchange_;  // being answered
  Framing framing_ = Framing::none;           // of the body that is being received
  std::uint64_t body_left_ = 0;               // with Framing::length
  std::uint64_t body_bytes_ = 0;
  ChunkedReader chunks_;

  std::string out_;
  std::size_t out_sent_ = 0;
  bool is_chunked_answer_ = false;
  bool is_close_delimited_ = false;  // the end of the connection is that of the answer
  bool has_answer_body_ = true;

  TimePoint since_;                 // begin of the wait that `deadline` limits
  std::uint64_t period_bytes_ = 0;  // `body_bytes_` at that time
  bool is_first_ = true;            // no request came yet
  bool is_head_begun_ = false;      // some bytes of it came
  bool is_continue_due_ = false;    // the client waits for a 100
  bool is_kept_alive_ = true;
  bool is_draining_ = false;
  bool is_closing_ = false;
  bool is_processing_ = false;
};

}  // namespace tinker::http
