#include <algorithm>

#include "tinker/http.h"

namespace tinker::http {

namespace {
char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}
}  // namespace

bool same_name(std::string_view a, std::string_view b) noexcept {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

void Headers::add(std::string name, std::string value) {
  entries_.push_back({.name = std::move(name), .value = std::move(value)});
}

void Headers::set(std::string name, std::string value) {
  remove(name);
  add(std::move(name), std::move(value));
}

void Headers::remove(std::string_view name) {
  std::erase_if(entries_, [name](const Header& header) { return same_name(header.name, name); });
}

std::optional<std::string_view> Headers::find(std::string_view name) const noexcept {
  for (const auto& header : entries_) {
    if (same_name(header.name, name)) return header.value;
  }
  return std::nullopt;
}

std::string_view to_string(Method method) noexcept {
  switch (method) {
    case Method::get: return "GET";
    case Method::post: return "POST";
    case Method::put: return "PUT";
    case Method::delete_: return "DELETE";
  }
  return "GET";
}

}  // namespace tinker::http
