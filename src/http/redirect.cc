#include "http/redirect.h"

namespace tinker::http {

bool is_redirect(const Response& response) noexcept {
  const int status = response.status;
  const bool is_one =
      status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
  return is_one && response.headers.contains("location");
}

Result<Url> redirect_target(const Url& from, const Response& response) {
  auto to = from.resolve(response.headers.find("location").value_or(""));
  if (!to || (from.is_tls() && !to->is_tls())) {
    return Error{.code = ErrorCode::invalid_response,
                 .message = "where storage redirects to cannot be used as an address"};
  }
  return to;
}

}  // namespace tinker::http
