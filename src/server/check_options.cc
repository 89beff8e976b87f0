#include "server/check_options.h"

#include <chrono>

#include "base/strings.h"
#include "http/url.h"
#include "server/browser_check.h"
#include "server/errors.h"
#include "server/journal_file.h"
#include "server/limits.h"

namespace tinker::server {

namespace {

// Clocks count nanoseconds in 64 bits.
constexpr std::chrono::seconds kMostSessionTimeout = std::chrono::hours(365 * 24);

Result<void> check_public_url(const LocalServerOptions& options) {
  if (options.public_url.empty()) return {};
  const auto checked = http::normalize_base_url(options.public_url);
  if (!checked.ok()) return checked.error().with_context("public_url");
  if (!options.keys.empty() || is_local_url(*checked)) return {};
  return bad_request(base::concat("public_url '",
                                  *checked,
                                  "' can be reached from other machines: give keys "
                                  "(--api-key-file)"));
}

}  // namespace

bool is_local_url(std::string_view url) {
  const auto parsed = http::Url::parse(url);
  return parsed.ok() && is_loopback_host(parsed->host);
}

bool is_in_clear(const LocalServerOptions& options) {
  const bool is_loopback = !options.unix_socket.empty() || is_loopback_host(options.host);
  if (!is_loopback && options.tls_certificate.empty()) return true;
  const auto front = http::Url::parse(options.public_url);
  return front.ok() && !front->is_tls() && !is_loopback_host(front->host);
}

Result<void> check_options(const LocalServerOptions& options) {
  const bool is_loopback = !options.unix_socket.empty() || is_loopback_host(options.host);
  if (!is_loopback && options.keys.empty()) {
    return bad_request(base::concat("host '",
                                    options.host,
                                    "' can be reached from other machines: give keys "
                                    "(--api-key-file), or listen at 127.0.0.1"));
  }
  TINKER_TRY(check_public_url(options));
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return bad_request("TLS: expected a certificate and a key, found only one of them");
  }
  if (!options.unix_socket.empty() && !options.tls_certificate.empty()) {
    return bad_request(
        "TLS: a Unix socket does without, because no other machine reaches it; give a host and a "
        "port, or no certificate");
  }
  if (options.session_timeout <= std::chrono::seconds(0) ||
      options.session_timeout > kMostSessionTimeout) {
    return bad_request(base::concat("session_timeout: expected 1 s to ",
                                    kMostSessionTimeout.count(),
                                    " s (365 days), found ",
                                    options.session_timeout.count(),
                                    " s"));
  }
  if (options.durable && options.data_dir.empty()) {
    return bad_request(
        "durable: runs cannot survive the server without a folder that does; give data_dir "
        "(--data-dir), or leave durable (--durable) out");
  }
  if (options.snapshot_steps < 1)
    return bad_request("snapshot_steps: expected at least 1, found 0");
  TINKER_TRY(check_limits(options.limits));
  for (const auto& row : limit_rows()) {
    const auto* const size = std::get_if<LimitRow::Size>(&row.member);
    const bool is_journalled = row.name == "training_bytes" || row.name == "json_bytes";
    if (!options.durable || size == nullptr || !is_journalled ||
        options.limits.*(*size) <= JournalFile::kMostBytes) {
      continue;
    }
    return bad_request(base::concat(row.name,
                                    ": expected at most ",
                                    JournalFile::kMostBytes >> 20U,
                                    "MiB where runs are durable, found ",
                                    limit_text(options.limits, row),
                                    "; a request is one record of a journal"));
  }
  return {};
}

}  // namespace tinker::server
