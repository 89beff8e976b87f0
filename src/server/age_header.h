#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tinker/result.h"
#include "tinker/secret.h"

/// The text that an age file begins with: the key of the file, wrapped for each recipient, and a
/// MAC of it all (age-encryption.org/v1). All functions fail with `invalid_argument`.
namespace tinker::server {

inline constexpr std::size_t kAgeFileKeyBytes = 16;

/// The public key of "age1…". The error quotes the text, unless it may be a secret.
Result<std::string> parse_age_recipient(std::string_view text);
/// The secret key of "AGE-SECRET-KEY-1…". The error has no word of it.
Result<std::string> parse_age_identity(const Secret& identity);

Result<std::string> make_age_header(std::string_view file_key,
                                    std::span<const std::string> public_keys);

struct AgeHeader {
  std::string file_key = {};
  std::size_t size = 0;  ///< The payload comes after so many bytes.
};
/// Reads the header of `file` and checks its MAC.
Result<AgeHeader> open_age_header(std::string_view file, std::string_view secret_key);

}  // namespace tinker::server
