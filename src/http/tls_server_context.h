#pragma once

#include <memory>
#include <string>

#include "tinker/result.h"

struct ssl_ctx_st;

namespace tinker::http {

/// Files in PEM form by which a server proves who it is.
struct TlsIdentity {
  std::string certificate_file = {};  ///< The server's own certificate, then those that signed it.
  std::string key_file = {};
};

/// What all TLS connections of a server share: TLS 1.2 and later; HTTP/2 for those who offer
/// it by ALPN, else HTTP/1.1. Immutable; sessions keep what they need of it.
class TlsServerContext {
 public:
  /// Fails with `invalid_argument` when a file cannot be read or the two do not belong together.
  static Result<std::shared_ptr<const TlsServerContext>> create(const TlsIdentity& identity);
  TlsServerContext(const TlsServerContext&) = delete;
  TlsServerContext& operator=(const TlsServerContext&) = delete;
  ~TlsServerContext();

  [[nodiscard]] ssl_ctx_st* native() const noexcept { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  TlsServerContext() = default;
  Result<void> load(const TlsIdentity& identity);

  std::unique_ptr<ssl_ctx_st, Free> context_;
};

}  // namespace tinker::http
