#include "http/tls_server_context.h"

#include <array>
#include <string_view>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/strings.h"

namespace tinker::http {

namespace {

using namespace std::string_view_literals;

Error unusable(const std::string& file, std::string_view what) {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return {
      .code = ErrorCode::invalid_argument,
      .message = base::concat(
          what, " \"", file, "\"", reason == nullptr ? "" : ": ", reason == nullptr ? "" : reason)};
}

/// The first protocol of ours that the client offers.
int select_protocol(SSL*,
                    const unsigned char** out,
                    unsigned char* out_size,
                    const unsigned char* in,
                    unsigned int in_size,
                    void*) {
  static constexpr auto kOurs = "\x02h2\x08http/1.1"sv;
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen,
                                          out_size,
                                          reinterpret_cast<const unsigned char*>(kOurs.data()),
                                          static_cast<unsigned int>(kOurs.size()),
                                          in,
                                          in_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

void TlsServerContext::Free::operator()(ssl_ctx_st* context) const noexcept {
  SSL_CTX_free(context);
}
TlsServerContext::~TlsServerContext() = default;

Result<std::shared_ptr<const TlsServerContext>> TlsServerContext::create(
    const TlsIdentity& identity) {
  std::shared_ptr<TlsServerContext> context(new TlsServerContext());
  TINKER_TRY(context->load(identity));
  return std::shared_ptr<const TlsServerContext>(std::move(context));
}

Result<void> TlsServerContext::load(const TlsIdentity& identity) {
  context_.reset(SSL_CTX_new(TLS_server_method()));
  if (!context_) return Error{.code = ErrorCode::internal, .message = "OpenSSL has no TLS server"};
  SSL_CTX* const context = context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // HTTP/2 refuses most ciphers of TLS 1.2 (RFC 9113, appendix A); these are left.
  SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_options(
      context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Idle connections then hold no buffers.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  static constexpr std::array<unsigned char, 6> kSessionName = {'t', 'i', 'n', 'k', 'e', 'r'};
  SSL_CTX_set_session_id_context(context, kSessionName.data(), kSessionName.size());
  SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
  // OpenSSL would ask for the password of a key at the terminal, and the server would hang there.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(context, identity.certificate_file.c_str()) != 1) {
    return unusable(identity.certificate_file, "cannot read a certificate from");
  }
  if (SSL_CTX_use_PrivateKey_file(context, identity.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return unusable(identity.key_file, "cannot use the private key in");
  }
  return {};
}

}  // namespace tinker::http
