#include "http/tls_session.h"

#include <algorithm>
#include <cstring>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/strings.h"
#include "http/message.h"
#include "http/url.h"

namespace tinker::http {

namespace {

Error cannot_open() {
  return {.code = ErrorCode::internal, .message = "OpenSSL cannot make a TLS session"};
}

}  // namespace

/// What OpenSSL calls. Its memory BIO would do, but copies once more and clears all it ever held on
/// each reset.
struct TlsSession::Callbacks {
  static TlsSession& self(BIO* bio) { return *static_cast<TlsSession*>(BIO_get_data(bio)); }
  static TlsSession& self(const SSL* ssl) {
    return *static_cast<TlsSession*>(SSL_get_app_data(ssl));
  }

  static int read(BIO* bio, char* buffer, int size) {
    std::string_view& in = self(bio).in_;
    BIO_clear_retry_flags(bio);
    if (in.empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::size_t n = std::min(in.size(), static_cast<std::size_t>(size));
    std::memcpy(buffer, in.data(), n);
    in.remove_prefix(n);
    return static_cast<int>(n);
  }

  static int write(BIO* bio, const char* data, int size) {
    BIO_clear_retry_flags(bio);
    if (std::string* const out = self(bio).out_) out->append(data, static_cast<std::size_t>(size));
    return size;
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* method() {
    static BIO_METHOD* const the_method = [] {
      BIO_METHOD* const m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tinker");
      TINKER_CHECK(m != nullptr);
      BIO_meth_set_read(m, read);
      BIO_meth_set_write(m, write);
      BIO_meth_set_ctrl(m, control);
      return m;
    }();
    return the_method;
  }
};

int TlsSession::verify_certificate(x509_store_ctx_st* store, void*) {
  const auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  return Callbacks::self(ssl).is_trusted(store) ? 1 : 0;
}

int TlsSession::keep_session(ssl_st* ssl, ssl_session_st* session) {
  const TlsSession& me = Callbacks::self(ssl);
  me.context_->keep_session(me.server_, session);
  return 1;  // ours now
}

void TlsSession::Free::operator()(ssl_st* ssl) const noexcept {
  SSL_free(ssl);
}

TlsSession::TlsSession(std::shared_ptr<TlsContext> context, std::string host, Peer peer)
    : context_(std::move(context)), host_(std::move(host)), peer_(peer) {}
TlsSession::~TlsSession() = default;

Result<std::unique_ptr<TlsSession>> TlsSession::connect(std::shared_ptr<TlsContext> context,
                                                        std::string host,
                                                        std::uint16_t port,
                                                        Peer peer) {
  std::unique_ptr<TlsSession> session(new TlsSession(std::move(context), std::move(host), peer));
  // What one kind of peer was trusted for does not count for another.
  session->server_ = base::concat(session->host_, ':', port, '/', static_cast<int>(peer));
  TINKER_TRY(session->open(session->context_->native()));
  TINKER_TRY(session->configure_client());
  return session;
}

Result<std::unique_ptr<TlsSession>> TlsSession::accept(const TlsServerContext& context) {
  std::unique_ptr<TlsSession> session(new TlsSession(nullptr, std::string(), Peer::origin));
  TINKER_TRY(session->open(context.native()));
  SSL_set_accept_state(session->ssl_.get());
  return session;
}

Result<void> TlsSession::open(ssl_ctx_st* context) {
  ssl_.reset(SSL_new(context));
  BIO* const bio = BIO_new(Callbacks::method());
  if (!ssl_ || bio == nullptr) return cannot_open();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  return {};
}

Result<void> TlsSession::configure_client() {
  SSL_set_connect_state(ssl_.get());
  using namespace std::string_view_literals;
  const auto protocols = peer_ == Peer::origin ? "\x02h2\x08http/1.1"sv : "\x08http/1.1"sv;
  if (SSL_set_alpn_protos(ssl_.get(),
                          reinterpret_cast<const unsigned char*>(protocols.data()),
                          static_cast<unsigned int>(protocols.size())) != 0) {
    return cannot_open();
  }
  const std::string name = sni_host(host_);
  if (!name.empty() && SSL_set_tlsext_host_name(ssl_.get(), name.c_str()) != 1) {
    return cannot_open();
  }
  if (SSL_SESSION* const session = context_->find_session(server_)) {
    SSL_set_session(ssl_.get(), session);
  }
  return {};
}

bool TlsSession::is_resumed() const noexcept {
  return SSL_session_reused(ssl_.get()) == 1;
}

Result<void> TlsSession::start(std::string& out) {
  out_ = &out;
  auto result = shake_hands();
  out_ = nullptr;
  return result;
}

Result<void> TlsSession::shake_hands() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done != 1) {
    const int error = SSL_get_error(ssl_.get(), done);
    if (error == SSL_ERROR_WANT_READ) return {};
    return describe_failure(error);
  }
  is_established_ = true;
  const unsigned char* protocol = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &protocol, &size);
  is_http2_ = size == 2 && std::memcmp(protocol, "h2", 2) == 0;
  return {};
}

Result<std::string_view> TlsSession::read(std::span<char> buffer, std::string& out) {
  struct Output {
    std::string*& slot;
    ~Output() { slot = nullptr; }
  } const output{out_};
  out_ = &out;
  if (!is_established_) {
    TINKER_TRY(shake_hands());
    if (!is_established_) return std::string_view();
  }
  std::size_t filled = 0;
  while (filled < buffer.size() && !is_closed_by_peer_) {
    ERR_clear_error();
    std::size_t n = 0;
    const int got = SSL_read_ex(ssl_.get(), buffer.data() + filled, buffer.size() - filled, &n);
    if (got == 1) {
      filled += n;
      continue;
    }
    const int error = SSL_get_error(ssl_.get(), got);
    if (error == SSL_ERROR_WANT_READ) break;
    if (error != SSL_ERROR_ZERO_RETURN) return describe_failure(error);
    is_closed_by_peer_ = true;
    in_ = {};
  }
  return std::string_view(buffer.data(), filled);
}

Result<void> TlsSession::write(std::string_view plain, std::string& out) {
  TINKER_CHECK(is_established_);
  if (plain.empty()) return {};
  ERR_clear_error();
  out_ = &out;
  std::size_t written = 0;
  const int done = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written);
  out_ = nullptr;
  if (done != 1) return describe_failure(SSL_get_error(ssl_.get(), done));
  return {};
}

void TlsSession::close(std::string& out) {
  if (!is_established_) return;
  ERR_clear_error();
  out_ = &out;
  SSL_shutdown(ssl_.get());
  out_ = nullptr;
  ERR_clear_error();
}

bool TlsSession::is_trusted(X509_STORE_CTX* store) const {
  if (context_->verifies()) {
    if (X509_verify_cert(store) != 1) return false;
    if (!is_for_host(X509_STORE_CTX_get0_cert(store))) {
      X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
      return false;
    }
  }
  if (peer_ != Peer::proxy && context_->has_pins() && !has_pinned_key(store)) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return false;
  }
  X509_STORE_CTX_set_error(store, X509_V_OK);
  return true;
}

bool TlsSession::is_for_host(X509* certificate) const {
  if (is_ip_address(host_)) return X509_check_ip_asc(certificate, host_.c_str(), 0) == 1;
  std::string_view name = host_;
  if (name.ends_with('.')) name.remove_suffix(1);
  constexpr unsigned kFlags = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS;
  if (X509_check_host(certificate, name.data(), name.size(), kFlags, nullptr) == 1) return true;

  // A wildcard covers names with '_' like any other, but OpenSSL knows only letters, digits and '-'
  // there. The name it matched with has to be that wildcard: a certificate for "a-b" is not for
  // "a_b".
  const std::string spelt = sni_host(name);
  if (spelt == name) return false;
  char* matched = nullptr;
  const bool is_match =
      X509_check_host(certificate, spelt.data(), spelt.size(), kFlags, &matched) == 1 &&
      matched != nullptr && std::string_view(matched).starts_with("*.") &&
      // Only what the star stands for may differ.
      std::string_view(name.substr(std::min(name.find('.'), name.size()))).find('_') ==
          std::string_view::npos;
  OPENSSL_free(matched);
  return is_match;
}

bool TlsSession::has_pinned_key(X509_STORE_CTX* store) const {
  if (context_->is_pinned(*X509_STORE_CTX_get0_cert(store))) return true;
  // What is above the certificate proves something only if the chain was verified.
  if (!context_->verifies()) return false;
  const STACK_OF(X509)* const chain = X509_STORE_CTX_get0_chain(store);
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    if (context_->is_pinned(*sk_X509_value(chain, i))) return true;
  }
  return false;
}

Error TlsSession::describe_failure(int ssl_error) const {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  const bool is_refused =
      ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED;
  ERR_clear_error();
  if (!is_established_ && is_refused) {
    // Asking again would bring the same certificate.
    return {.code = ErrorCode::connection_failed,
            .message = describe_certificate(SSL_get_verify_result(ssl_.get()))};
  }
  const std::string what =
      base::concat(is_established_ ? "TLS: connection to " : "TLS: handshake with ",
                   host_.empty() ? "the client" : "host ",
                   host_,
                   " failed");
  if (reason == nullptr) return connection_error(base::concat(what, " (", ssl_error, ")"));
  return connection_error(base::concat(what, ": ", reason));
}

std::string TlsSession::describe_certificate(long reason) const {
  const auto say = [this](const auto&... text) {
    return base::concat("TLS: certificate of host ", host_, text...);
  };
  switch (reason) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return say(" expired");
    case X509_V_ERR_CERT_NOT_YET_VALID: return say(" is not valid yet");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: return say(" is self-signed");
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return say(" is signed by an unknown authority");
    case X509_V_ERR_HOSTNAME_MISMATCH: return say(" is for another host");
    case X509_V_ERR_APPLICATION_VERIFICATION: return say(" has none of the pinned keys");
    default: return say(" cannot be trusted: ", X509_verify_cert_error_string(reason));
  }
}

}  // namespace tinker::http
