#include "base/console_urls.h"

#include "base/strings.h"

namespace tinker::base {

namespace {

constexpr std::string_view kConsole = "https://tinker.thinkingmachines.ai";

/// Everything but unreserved characters (RFC 3986), "/" and ":" included.
std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace

std::string console_sessions_url() {
  return concat(kConsole, "/sessions");
}
std::string console_session_url(std::string_view session_id) {
  return concat(kConsole, "/sessions/", session_id);
}
std::string console_training_run_url(std::string_view run_id) {
  return concat(kConsole, "/training_runs/", run_id);
}
std::string console_checkpoint_url(std::string_view run_id, std::string_view checkpoint_id) {
  return concat(
      kConsole, "/checkpoints/", percent_encode(run_id), "/", percent_encode(checkpoint_id));
}
std::string console_playground_url(std::string_view tinker_path) {
  return concat(kConsole, "/playground?mode=checkpoint&checkpoint=", percent_encode(tinker_path));
}
std::string console_key_url(std::string_view key_id) {
  return concat(kConsole, "/keys/", percent_encode(key_id));
}
std::string console_new_key_url(std::string_view key_name) {
  // As a form sends it: a space is "+".
  std::string name;
  for (const char c : key_name) name += c == ' ' ? "+" : percent_encode({&c, 1});
  return concat(kConsole, "/keys?new_key=true&key_name=", name);
}

}  // namespace tinker::base
