#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tinker/result.h"

struct ssl_ctx_st;
struct ssl_session_st;
struct x509_st;

namespace tinker::http {

struct TlsOptions {
  bool verify = true;
  std::string ca_file = {};  ///< These two replace the system's store.
  std::string ca_path = {};
  std::vector<std::string> pinned_keys = {};  ///< As `TransportOptions::pinned_keys`.
};

/// Whom to trust, and sessions to resume: what all TLS connections of a transport share. Loop
/// thread only.
class TlsContext {
 public:
  static Result<std::shared_ptr<TlsContext>> create(const TlsOptions& options);
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  [[nodiscard]] ssl_ctx_st* native() const noexcept { return context_.get(); }
  [[nodiscard]] bool verifies() const noexcept { return verify_; }
  [[nodiscard]] bool has_pins() const noexcept { return !pins_.empty(); }
  [[nodiscard]] bool is_pinned(const x509_st& certificate) const;

  /// A session to resume with the server of that name, or null.
  [[nodiscard]] ssl_session_st* find_session(const std::string& server) const;
  /// Keeps a session, which it then owns.
  void keep_session(const std::string& server, ssl_session_st* session);

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Free {
    void operator()(ssl_ctx_st* context) const noexcept;
    void operator()(ssl_session_st* session) const noexcept;
  };

  TlsContext() = default;
  Result<void> configure(const TlsOptions& options);
  Result<void> load_authorities(const TlsOptions& options);
  static Result<Digest> parse_pin(std::string_view text);

  std::unique_ptr<ssl_ctx_st, Free> context_;
  bool verify_ = true;
  std::vector<Digest> pins_;
  std::unordered_map<std::string, std::unique_ptr<ssl_session_st, Free>> sessions_;
};

}  // namespace tinker::http
