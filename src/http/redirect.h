#pragma once

#include "http/url.h"
#include "tinker/http.h"

namespace tinker::http {

/// As many are followed, for those who follow any.
inline constexpr int kMaxRedirects = 10;

/// Whether an answer sends elsewhere.
bool is_redirect(const Response& response) noexcept;

/// Where a redirect found at `from` leads. Fails with `invalid_response` when that is no address,
/// or one without TLS for a request that had it. Never shown: it may be signed.
Result<Url> redirect_target(const Url& from, const Response& response);

}  // namespace tinker::http
