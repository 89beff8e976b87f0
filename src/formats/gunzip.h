#pragma once

#include <memory>
#include <string_view>

#include "tinker/result.h"
#include "tinker/unique_function.h"

namespace tinker::formats {

/// Whether a file that begins with these bytes is compressed by gzip (RFC 1952).
[[nodiscard]] bool is_gzip(std::string_view begin) noexcept;

/// Decompresses gzip data that comes in pieces; members that follow each other are one text.
///
/// Thread-compatible.
class Gunzip {
 public:
  /// What comes out goes to `out` in pieces of bounded size; an error of it ends the decompression.
  explicit Gunzip(UniqueFunction<Result<void>(std::string_view)> out);
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  ~Gunzip();

  /// Fails with `invalid_response` when the data is damaged. No more calls after an error.
  Result<void> put(std::string_view bytes);
  /// There is no more. Fails when the data was cut short.
  [[nodiscard]] Result<void> finish() const;

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  UniqueFunction<Result<void>(std::string_view)> out_;
};

}  // namespace tinker::formats
