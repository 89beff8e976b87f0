#include "support/load_server/certificate.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "tinker/check.h"

namespace tinker::load_server {

namespace {

struct FreeKey {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Certificate = std::unique_ptr<X509, FreeCertificate>;

constexpr long kDay = 24L * 60 * 60;

void add_extension(X509& certificate, int nid, const char* value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
  TINKER_CHECK(extension != nullptr);
  X509_add_ext(&certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate make_certificate(EVP_PKEY& key, const char* name, long serial) {
  Certificate out(X509_new());
  X509_set_version(out.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(out.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(out.get()), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(out.get()), 30 * kDay);
  X509_set_pubkey(out.get(), &key);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): OpenSSL's texts are unsigned.
  const auto* const text = reinterpret_cast<const unsigned char*>(name);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(out.get()), "CN", MBSTRING_ASC, text, -1, -1, 0);
  return out;
}

void sign(X509& certificate, X509& issuer, EVP_PKEY& issuer_key) {
  X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer));
  TINKER_CHECK(X509_sign(&certificate, &issuer_key, EVP_sha256()) > 0);
}

std::string write_to_file(X509& certificate) {
  std::string path = (std::filesystem::temp_directory_path() / "tinker-ca-XXXXXX").string();
  const int fd = ::mkstemp(path.data());
  TINKER_CHECK(fd >= 0);
  std::FILE* const file = ::fdopen(fd, "w");
  PEM_write_X509(file, &certificate);
  std::fclose(file);
  return path;
}

/// HTTP/2 if the client offers it, otherwise whatever it wants.
int select_protocol(SSL* /*tls*/,
                    const unsigned char** out,
                    unsigned char* out_size,
                    const unsigned char* offered,
                    unsigned offered_size,
                    void* /*user*/) {
  static constexpr std::array<unsigned char, 12> kOurs = {
      2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* selected = nullptr;
  const int status =
      SSL_select_next_proto(&selected, out_size, kOurs.data(), kOurs.size(), offered, offered_size);
  *out = selected;
  return status == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

void ServerTls::Free::operator()(ssl_ctx_st* context) const noexcept {
  SSL_CTX_free(context);
}

ServerTls::ServerTls() : context_(SSL_CTX_new(TLS_server_method())) {
  const Key ca_key(EVP_EC_gen("P-256"));
  const Certificate ca = make_certificate(*ca_key, "tinker test authority", 1);
  add_extension(*ca, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(*ca, NID_key_usage, "critical,keyCertSign");
  sign(*ca, *ca, *ca_key);

  const Key key(EVP_EC_gen("P-256"));
  const Certificate leaf = make_certificate(*key, "localhost", 2);
  add_extension(*leaf, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
  add_extension(*leaf, NID_ext_key_usage, "serverAuth");
  sign(*leaf, *ca, *ca_key);

  SSL_CTX_use_certificate(context_.get(), leaf.get());
  SSL_CTX_use_PrivateKey(context_.get(), key.get());
  SSL_CTX_set_alpn_select_cb(context_.get(), select_protocol, nullptr);
  SSL_CTX_set_mode(context_.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_num_tickets(context_.get(), 0);
  SSL_CTX_set_read_ahead(context_.get(), 1);
  ca_file_ = write_to_file(*ca);
}

ServerTls::~ServerTls() {
  std::remove(ca_file_.c_str());
}

}  // namespace tinker::load_server
