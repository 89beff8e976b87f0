#pragma once

#include <string>
#include <string_view>

#include "base/strings.h"

namespace tinker::formats {

/// Appends `text`, which is UTF-8, as JSON has it: in quotes, escaped.
inline void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  out += '"';
  for (const char c : text) {
    if (const auto at = kEscaped.find(c); at != std::string_view::npos) {
      out += {'\\', kLetters[at]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00" + base::to_hex({&c, 1});
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace tinker::formats
