#include "base/relative_path.h"

#include <algorithm>

#include "base/strings.h"

namespace tinker::base {
namespace {

constexpr std::size_t kMaxPart = 255;  // NAME_MAX of the usual file systems
constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kMaxShown = 100;

bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == '\x7f';
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    if (is_control(c)) {
      const auto byte = static_cast<unsigned char>(c);
      out += concat("\\x", kDigits[byte >> 4U], kDigits[byte & 0xfU]);
    } else {
      out += c;
    }
  }
  return out += text.size() > kMaxShown ? "...\"" : "\"";
}

Result<std::string> clean_relative_path(std::string_view text) {
  const auto refuse = [text](std::string_view why) {
    return Error{.code = ErrorCode::invalid_response,
                 .message = concat("unsafe file name ", quoted(text), ": ", why)};
  };
  if (text.starts_with('/')) return refuse("it is absolute");
  if (std::ranges::any_of(text, is_control)) return refuse("it holds a control character");
  // A separator elsewhere; no checkpoint has it in a name.
  if (text.find('\\') != std::string_view::npos) return refuse("it holds a backslash");
  if (text.size() > kMaxPath) return refuse("it is too long");
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const auto part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse("it leaves the folder");
    if (part.size() > kMaxPart) return refuse("a part of it is too long");
    if (!out.empty()) out += '/';
    out += part;
  }
  if (out.empty()) return refuse("it names nothing");
  return out;
}

}  // namespace tinker::base
