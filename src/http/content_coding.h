#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::http {

/// What the sender compressed. `encoding` is the value of `Content-Encoding`: `gzip`, `deflate`
/// (with or without its zlib frame), `zstd`, `identity`, several with commas between them in the
/// order in which they were applied, or nothing. An empty body is empty in every coding.
///
/// Fails with `code` for a coding that is none of these, for data that is damaged, cut
/// short or followed by something else, and as soon as more than `limit` bytes come out.
Result<std::string> decode_content(std::string_view encoding,
                                   std::string body,
                                   std::size_t limit,
                                   ErrorCode code = ErrorCode::invalid_response);

/// One gzip member, at zlib's `level`: 1 (fast) to 9 (small).
Result<std::string> gzip_compress(std::string_view data, int level);
/// One zstd frame. Fails with `invalid_argument` where zstd has no such level.
Result<std::string> zstd_compress(std::string_view data, int level);

}  // namespace tinker::http
