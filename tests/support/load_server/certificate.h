#pragma once

#include <memory>
#include <string>

struct ssl_ctx_st;

namespace tinker::load_server {

/// TLS for a test server: an authority made on the spot, and a certificate for localhost, 127.0.0.1
/// and ::1 that it signed. The authority's certificate lies in a file as long as this lives.
class ServerTls {
 public:
  ServerTls();
  ServerTls(const ServerTls&) = delete;
  ServerTls& operator=(const ServerTls&) = delete;
  ~ServerTls();

  [[nodiscard]] ssl_ctx_st* context() const noexcept { return context_.get(); }
  [[nodiscard]] const std::string& ca_file() const noexcept { return ca_file_; }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::string ca_file_;
};

}  // namespace tinker::load_server
