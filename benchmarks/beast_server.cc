// A plain Boost.Beast server that says hello, as its examples do it: the peer of http_server_bench.
// Prints its port; serves until the standard input ends.

#include <cstdio>
#include <memory>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <unistd.h>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

class Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(tcp::socket socket) : stream_(std::move(socket)) {}

  void read() {
    request_ = {};
    http::async_read(
        stream_, buffer_, request_, [self = shared_from_this()](beast::error_code ec, std::size_t) {
          if (!ec) self->answer();
        });
  }

 private:
  void answer() {
    response_ = {http::status::ok, request_.version()};
    response_.set(http::field::server, "beast");
    response_.set(http::field::content_type, "text/plain");
    response_.keep_alive(request_.keep_alive());
    response_.body() = "hello, world";
    response_.prepare_payload();
    http::async_write(
        stream_, response_, [self = shared_from_this()](beast::error_code ec, std::size_t) {
          if (!ec && self->response_.keep_alive()) self->read();
        });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

void accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([&acceptor](beast::error_code ec, tcp::socket socket) {
    if (!ec) {
      socket.set_option(tcp::no_delay(true));
      std::make_shared<Session>(std::move(socket))->read();
    }
    accept(acceptor);
  });
}

}  // namespace

int main() {
  asio::io_context io{1};
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  accept(acceptor);
  std::printf("%d\n", static_cast<int>(acceptor.local_endpoint().port()));
  std::fflush(stdout);
  std::thread end([&io] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    io.stop();
  });
  io.run();
  end.join();
  return 0;
}
