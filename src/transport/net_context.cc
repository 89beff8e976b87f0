#include "transport/net_context.h"

namespace tinker::http {

Result<std::shared_ptr<TlsContext>> NetContext::tls() {
  if (!tls_) {
    tls_ = TlsContext::create({.verify = options_.verify_tls,
                               .ca_file = options_.ca_file,
                               .ca_path = options_.ca_path,
                               .pinned_keys = options_.pinned_keys});
  }
  return *tls_;
}

}  // namespace tinker::http
