#include "http/tls_context.h"

#include <algorithm>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/strings.h"
#include "http/ascii.h"
#include "http/tls_session.h"

namespace tinker::http {

namespace {

constexpr std::size_t kMaxSessions = 256;

Error options_error(std::string message) {
  ERR_clear_error();
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

}  // namespace

void TlsContext::Free::operator()(ssl_ctx_st* context) const noexcept {
  SSL_CTX_free(context);
}
void TlsContext::Free::operator()(ssl_session_st* session) const noexcept {
  SSL_SESSION_free(session);
}

TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::create(const TlsOptions& options) {
  std::shared_ptr<TlsContext> context(new TlsContext());
  TINKER_TRY(context->configure(options));
  return context;
}

Result<void> TlsContext::configure(const TlsOptions& options) {
  verify_ = options.verify;
  context_.reset(SSL_CTX_new(TLS_client_method()));
  if (!context_) return Error{.code = ErrorCode::internal, .message = "OpenSSL has no TLS client"};
  SSL_CTX* const context = context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Idle connections then hold no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_set_cert_verify_callback(context, TlsSession::verify_certificate, nullptr);
  SSL_CTX_sess_set_new_cb(context, TlsSession::keep_session);
  for (const auto& text : options.pinned_keys) {
    TINKER_TRY(const Digest pin, parse_pin(text));
    pins_.push_back(pin);
  }
  const bool checks = verify_ || has_pins();
  SSL_CTX_set_verify(context, checks ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  return verify_ ? load_authorities(options) : Result<void>();
}

Result<void> TlsContext::load_authorities(const TlsOptions& options) {
  if (options.ca_file.empty() && options.ca_path.empty()) {
    // Reads SSL_CERT_FILE and SSL_CERT_DIR too. A system without a store trusts nobody, and the
    // first connection says so.
    SSL_CTX_set_default_verify_paths(context_.get());
    ERR_clear_error();
    return {};
  }
  if (!options.ca_file.empty() &&
      SSL_CTX_load_verify_file(context_.get(), options.ca_file.c_str()) != 1) {
    return options_error(base::concat("cannot read certificates from \"", options.ca_file, "\""));
  }
  if (!options.ca_path.empty() &&
      SSL_CTX_load_verify_dir(context_.get(), options.ca_path.c_str()) != 1) {
    return options_error(base::concat("cannot use the certificates in \"", options.ca_path, "\""));
  }
  return {};
}

Result<TlsContext::Digest> TlsContext::parse_pin(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256//";
  constexpr std::size_t kBase64Size = 44;
  Digest digest = {};
  if (text.starts_with(kPrefix)) {
    const std::string_view code = text.substr(kPrefix.size());
    std::array<unsigned char, 33> bytes = {};  // 44 characters, one of them padding
    if (code.size() == kBase64Size && code.ends_with('=') && !code.ends_with("==") &&
        EVP_DecodeBlock(bytes.data(),
                        reinterpret_cast<const unsigned char*>(code.data()),
                        static_cast<int>(code.size())) == static_cast<int>(bytes.size())) {
      std::copy_n(bytes.begin(), digest.size(), digest.begin());
      return digest;
    }
  } else if (text.size() == 2 * digest.size() &&
             std::ranges::all_of(text, [](char c) { return ascii::hex_value(c) >= 0; })) {
    for (std::size_t i = 0; i < digest.size(); ++i) {
      digest.at(i) = static_cast<unsigned char>(ascii::hex_value(text[2 * i]) * 16 +
                                                ascii::hex_value(text[2 * i + 1]));
    }
    return digest;
  }
  return options_error(base::concat(
      "pinned key \"", text, R"(" is neither "sha256//" and base64 nor 64 hexadecimal digits)"));
}

bool TlsContext::is_pinned(const x509_st& certificate) const {
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(&certificate), &der);
  if (size < 0) return false;
  Digest digest = {};
  unsigned int digest_size = 0;
  const int hashed = EVP_Digest(
      der, static_cast<std::size_t>(size), digest.data(), &digest_size, EVP_sha256(), nullptr);
  OPENSSL_free(der);
  return hashed == 1 && digest_size == digest.size() &&
         std::ranges::find(pins_, digest) != pins_.end();
}

ssl_session_st* TlsContext::find_session(const std::string& server) const {
  const auto found = sessions_.find(server);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void TlsContext::keep_session(const std::string& server, ssl_session_st* session) {
  if (sessions_.size() >= kMaxSessions && !sessions_.contains(server)) sessions_.clear();
  sessions_[server].reset(session);
}

}  // namespace tinker::http
