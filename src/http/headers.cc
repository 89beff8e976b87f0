#include <algorithm>

#include "http/ascii.h"
#include "tinker/http.h"

namespace tinker::http {

bool same_name(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(
      a, b, [](char x, char y) { return ascii::to_lower(x) == ascii::to_lower(y); });
}

void Headers::reserve(std::size_t count, std::size_t bytes) {
  entries_.reserve(count);
  text_.reserve(bytes);
}

void Headers::add(std::string_view name, std::string_view value) {
  const std::size_t at = text_.size();
  const std::size_t size = at + name.size() + value.size();
  std::string grown;  // beside the old text: what is added may be part of it
  if (size > text_.capacity()) {
    grown.reserve(2 * size);
    grown += text_;
  }
  std::string& text = size > text_.capacity() ? grown : text_;
  text += name;
  text += value;
  if (&text == &grown) text_ = std::move(grown);
  entries_.push_back({.at = at,
                      .name_size = static_cast<std::uint32_t>(name.size()),
                      .value_size = static_cast<std::uint32_t>(value.size())});
}

void Headers::set(std::string_view name, std::string_view value) {
  remove(name);
  add(name, value);
}

void Headers::remove(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.name_size == name.size() && same_name(header(entry).name, name);
  });
}

std::optional<std::string_view> Headers::find(std::string_view name) const noexcept {
  for (const auto& entry : entries_) {
    if (entry.name_size != name.size()) continue;
    const Header found = header(entry);
    if (same_name(found.name, name)) return found.value;
  }
  return std::nullopt;
}

bool operator==(const Headers& a, const Headers& b) noexcept {
  return std::ranges::equal(a, b);
}

std::string_view to_string(Method method) noexcept {
  switch (method) {
    case Method::get: return "GET";
    case Method::post: return "POST";
    case Method::put: return "PUT";
    case Method::delete_: return "DELETE";
    case Method::head: return "HEAD";
    case Method::options: return "OPTIONS";
    case Method::patch: return "PATCH";
  }
  return "GET";
}

}  // namespace tinker::http
