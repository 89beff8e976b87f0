#pragma once

#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker::server {

/// A key as people pass it on (BIP 173, of any length): what it is, and its bytes.
struct Bech32 {
  std::string prefix = {};
  std::string bytes = {};
};

/// In the case of the prefix, which must not mix both.
std::string to_bech32(const Bech32& key);
/// Fails with `invalid_argument`, without a word of the text, which may be secret.
Result<Bech32> from_bech32(std::string_view text);

}  // namespace tinker::server
