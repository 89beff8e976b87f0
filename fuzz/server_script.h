#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tinker::fuzz {

/// One request of a script. A line of it is
///
///     METHOD PATTERN VALUE... CODING BODY
///
/// METHOD and PATTERN are a row of the server's table of endpoints, with a VALUE for each {name} in
/// PATTERN. CODING is one letter: `j` JSON, `p` protobuf, `z` JSON in zstd, `q` protobuf in zstd,
/// `t` JSON that says it is zstd, `u` a type that no endpoint reads. The BODY of a GET is its
/// query.
struct ScriptLine {
  std::string row = {};  ///< METHOD and PATTERN.
  std::vector<std::string> values = {};
  char coding = 'j';
  std::string body = {};
};

/// What the letters of a script stand for.
struct ScriptIds {
  std::string session = {};  ///< @
  std::string model = {};    ///< #
  std::string upload = {};   ///< $: the latest one
};

inline int hex_digit(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto at = kDigits.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

/// `text` with its ids, and with its escapes resolved: \n, \xHH, and \ before anything else, which
/// then stands for itself.
inline std::string filled(std::string_view text, const ScriptIds& ids) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '@') {
      out += ids.session;
    } else if (c == '#') {
      out += ids.model;
    } else if (c == '$') {
      out += ids.upload;
    } else if (c != '\\' || i + 1 == text.size()) {
      out += c;
    } else if (const char next = text[++i]; next == 'n') {
      out += '\n';
    } else if (next == 'x' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
               hex_digit(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += next;
    }
  }
  return out;
}

inline std::string_view take(std::string_view& text, char end) {
  const auto out = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), out.size() + 1));
  return out;
}

/// How many {names} a pattern has.
inline std::ptrdiff_t names_of(std::string_view pattern) {
  return std::count(pattern.begin(), pattern.end(), '{');
}

inline ScriptLine parse_line(std::string_view line, const ScriptIds& ids) {
  ScriptLine out;
  out.row = std::string(take(line, ' ')) + " ";
  const auto pattern = take(line, ' ');
  out.row.append(pattern);
  for (auto names = names_of(pattern); names > 0; --names) {
    out.values.push_back(filled(take(line, ' '), ids));
  }
  const auto coding = take(line, ' ');
  if (!coding.empty()) out.coding = coding.front();
  out.body = filled(line, ids);
  return out;
}

}  // namespace tinker::fuzz
