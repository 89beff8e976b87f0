#pragma once

#include <string_view>

#include "tinker/result.h"

namespace tinker::server {

/// Whether a request may be answered that could come from a browser. A web site that its user
/// visits must not use a server on the user's machine: it can send requests there, and, by pointing
/// its own name to 127.0.0.1 (DNS rebinding), even read the answers. So on loopback the Host has to
/// name this machine, and Origin, where there is one, too; elsewhere Origin has to be the same as
/// Host. `host` and `origin` are the headers, empty when absent. `public_origin`, where a proxy
/// stands in front ("https://tinker.example", as `http::Url::origin` spells it), may be named, too.
/// Fails with `permission_denied`.
Result<void> check_browser(std::string_view host,
                           std::string_view origin,
                           bool is_loopback,
                           std::string_view public_origin = {});

/// Whether listening at `host` reaches this machine alone: "localhost", 127.0.0.0/8, "::1".
bool is_loopback_host(std::string_view host);

}  // namespace tinker::server
