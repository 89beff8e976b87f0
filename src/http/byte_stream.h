#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/io_buffers.h"
#include "http/socket.h"
#include "http/tls_session.h"
#include "tinker/result.h"

namespace tinker::http {

/// Carries bytes between a socket and a protocol, through any layers of TLS. The base of client and
/// server connections: a derived class says what to do with bytes that came and which bytes to send
/// next. Loop thread only; lives in a `shared_ptr`.
class ByteStream : public std::enable_shared_from_this<ByteStream> {
 public:
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// Sends what there is to send.
  void flush();
  [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }

 protected:
  /// `buffers` must outlive the stream.
  explicit ByteStream(IoBuffers& buffers) : buffers_(buffers) {}

  /// Starts to read from `socket`.
  void attach(std::unique_ptr<Socket> socket);
  /// Puts TLS on top of the layers there are and begins its handshake.
  Result<void> add_tls(std::unique_ptr<TlsSession> session);
  /// Sends bytes through the layers there are, ahead of `output`.
  Result<void> send(std::string_view bytes) { return send_below(tls_.size(), bytes); }
  /// Feeds bytes that came too early to the layer of TLS that was added since.
  void receive_early(std::string_view bytes) { receive(tls_.size() - 1, bytes); }
  /// Waits for bytes from the peer; to be called again after `on_paused`.
  void listen();
  /// Tells the peer, politely where TLS is used, that no more will be sent; reading goes on.
  void finish_sending();
  /// Says goodbye to the peer and closes the socket.
  void shut();
  [[nodiscard]] const TlsSession* tls() const noexcept {
    return tls_.empty() ? nullptr : tls_.back().get();
  }
  [[nodiscard]] bool has_unsent() const noexcept {
    return is_waiting_to_write_ || wire_sent_ < wire_.size();
  }
  /// Bytes that the socket took, ever.
  [[nodiscard]] std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  [[nodiscard]] Socket* socket() const noexcept { return socket_.get(); }

 private:
  // Any of these may close the stream.
  /// Plain bytes from the peer.
  virtual void on_bytes(std::string_view bytes) = 0;
  /// The newest layer of TLS is established.
  virtual void on_secure() = 0;
  /// A turn of reading is over: what its bytes led to can be sent.
  virtual void on_turn() = 0;
  /// The peer sends no more. Unless `is_clean`, somebody may have cut the bytes short.
  virtual void on_end(bool is_clean) = 0;
  virtual void on_broken(const Error& error) = 0;
  /// Nothing is read until `listen` is called again, because there is no room.
  virtual void on_paused() = 0;
  [[nodiscard]] virtual bool has_room() const = 0;
  /// What to send next; empty when there is nothing. Valid until the next call.
  [[nodiscard]] virtual std::string_view output() = 0;
  virtual void wrote(std::size_t bytes) = 0;
  /// All that could be sent was sent.
  virtual void on_flushed() = 0;
  /// For messages: "api.example:443".
  [[nodiscard]] virtual std::string peer_name() const = 0;

  void on_readable();
  void read_some();
  void receive(std::size_t layer, std::string_view bytes);
  /// Hands bytes of `layer` to what carries it.
  Result<void> send_below(std::size_t layer, std::string_view bytes);
  bool send_wire();
  bool send_more();
  bool send_now(std::string_view bytes, std::size_t& sent);
  void wait_writable();
  void on_write_failed(int error);
  void end();
  [[nodiscard]] Error broken(int error) const;

  IoBuffers& buffers_;
  std::unique_ptr<Socket> socket_;
  std::vector<std::unique_ptr<TlsSession>> tls_;  // outermost first
  std::string wire_;  // for the socket, as far as `wire_sent_` sent already
  std::size_t wire_sent_ = 0;
  std::uint64_t sent_bytes_ = 0;
  bool is_waiting_to_write_ = false;
  bool is_write_broken_ = false;
  bool is_closed_ = false;
};

}  // namespace tinker::http
