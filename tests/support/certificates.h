#pragma once

#include <cstdio>
#include <ctime>
#include <memory>
#include <string>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace tinker::testing {

/// A private key with its certificate, for test servers.
struct Identity {
  std::shared_ptr<EVP_PKEY> key;
  std::shared_ptr<X509> certificate;

  /// "sha256//" and the base64 of the public key's hash, as a pin.
  [[nodiscard]] std::string pin() const {
    unsigned char* der = nullptr;
    const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate.get()), &der);
    unsigned char digest[32];
    EVP_Digest(der, static_cast<std::size_t>(size), digest, nullptr, EVP_sha256(), nullptr);
    OPENSSL_free(der);
    unsigned char text[48];
    EVP_EncodeBlock(text, digest, sizeof digest);
    return "sha256//" + std::string(reinterpret_cast<const char*>(text));
  }
  void write_certificate(const std::string& path) const {
    FILE* const file = std::fopen(path.c_str(), "w");
    PEM_write_X509(file, certificate.get());
    std::fclose(file);
  }
  void write_key(const std::string& path) const {
    FILE* const file = std::fopen(path.c_str(), "w");
    PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }
};

struct CertificateOptions {
  std::string common_name = "localhost";
  std::string alt_names = "DNS:localhost,IP:127.0.0.1";  ///< Empty: none.
  bool is_authority = false;
  long valid_from = -3600;  ///< Seconds from now.
  long valid_until = 86'400;
};

/// Signed by `issuer`, or by itself without one.
inline Identity make_identity(const CertificateOptions& options, const Identity* issuer = nullptr) {
  static long serial = static_cast<long>(std::time(nullptr));
  Identity out;
  out.key.reset(EVP_EC_gen("P-256"), EVP_PKEY_free);
  out.certificate.reset(X509_new(), X509_free);
  X509* const x = out.certificate.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(x), options.valid_from);
  X509_gmtime_adj(X509_getm_notAfter(x), options.valid_until);
  X509_set_pubkey(x, out.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x),
                             "CN",
                             MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(options.common_name.c_str()),
                             -1,
                             -1,
                             0);
  X509* const signer = issuer != nullptr ? issuer->certificate.get() : x;
  X509_set_issuer_name(x, X509_get_subject_name(signer));
  const auto extend = [&](int nid, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, signer, x, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  };
  extend(NID_basic_constraints, options.is_authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (options.is_authority) extend(NID_key_usage, "critical,keyCertSign,cRLSign");
  if (!options.alt_names.empty()) extend(NID_subject_alt_name, options.alt_names);
  X509_sign(x, issuer != nullptr ? issuer->key.get() : out.key.get(), EVP_sha256());
  return out;
}

inline Identity make_authority(const std::string& name) {
  return make_identity({.common_name = name, .alt_names = "", .is_authority = true});
}

}  // namespace tinker::testing
