#include "tinker/event_log.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace tinker {

namespace {

bool needs_quotes(std::string_view text) noexcept {
  return text.empty() || std::ranges::any_of(text, [](char c) {
           return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == '\\' ||
                  c == '\x7f';
         });
}

std::string quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += base::concat("\\", c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < ' ' || byte == 0x7fU) {
      out += base::concat("\\x", kHex[byte >> 4U], kHex[byte & 0xfU]);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void append(std::string& line, std::string_view key, std::string_view value) {
  if (!line.empty()) line += ' ';
  line += key;
  line += '=';
  if (needs_quotes(value)) {
    line += quoted(value);
  } else {
    line += value;
  }
}

void append_text(std::string& line, std::string_view key, std::string_view value) {
  if (!value.empty()) append(line, key, value);
}

void append_number(std::string& line, std::string_view key, auto value) {
  if (value != 0) append(line, key, base::concat(value));
}

std::string text_of(const EventField& field) {
  if (const auto* flag = std::get_if<bool>(&field.value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&field.value)) return base::concat(*integer);
  if (const auto* number = std::get_if<double>(&field.value)) return base::concat(*number);
  return std::get<std::string>(field.value);
}

std::string line_of(const Event& event) {
  std::string line;
  append(line, "event", event.name);
  append_text(line, "message", event.message);
  append_text(line, "endpoint", event.endpoint);
  append_text(line, "session_id", event.session_id);
  append_text(line, "request_id", event.request_id);
  append_number(line, "status", event.http_status);
  if (event.error) append(line, "error", to_string(*event.error));
  append_number(line, "attempt", event.attempt);
  append_number(
      line, "elapsed_ms", std::chrono::duration<double, std::milli>(event.elapsed).count());
  append_number(line, "bytes_sent", event.bytes_sent);
  append_number(line, "bytes_received", event.bytes_received);
  for (const auto& field : event.fields) append(line, field.name, text_of(field));
  return line;
}

}  // namespace

Subscription log_events(const EventBus& bus, Logger logger) {
  return bus.subscribe([logger = std::move(logger)](const Event& event) {
    if (logger.enabled(event.level)) logger.write(event.level, line_of(event));
  });
}

}  // namespace tinker
