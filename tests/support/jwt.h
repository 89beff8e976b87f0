#pragma once

#include <string>
#include <string_view>

#include "tinker/secret.h"
#include "wire/base64.h"

namespace tinker::testing {

/// A token with that payload, signed by nobody.
inline Secret make_jwt(std::string_view payload) {
  std::string text = wire::to_base64(payload);
  text.resize(text.find_last_not_of('=') + 1);
  for (char& c : text) {
    if (c == '+') c = '-';
    if (c == '/') c = '_';
  }
  return Secret("eyJhbGciOiJub25lIn0." + text + ".c2ln");
}

}  // namespace tinker::testing
