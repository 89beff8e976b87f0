#pragma once

#include <nghttp2/nghttp2.h>

namespace tinker::http {

/// Where nghttp2 keeps what it knows of each stream and frame: in blocks that are used again.
nghttp2_mem* h2_memory() noexcept;

}  // namespace tinker::http
