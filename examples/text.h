#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tinker/tinker.h>

/// What the examples share: a model whose tokens are the bytes of a text.
namespace example {

inline std::vector<std::int32_t> tokens(std::string_view text) {
  return {text.begin(), text.end()};
}

/// The letters; '?' for what cannot be shown.
inline std::string text(const auto& tokens) {
  std::string out;
  for (const auto token : tokens) {
    const bool is_shown = token >= ' ' && token <= '~';
    out += is_shown ? static_cast<char>(token) : '?';
  }
  return out;
}

/// Every letter of `text` is to be predicted from those before it; only what follows `prompt`
/// letters counts.
inline tinker::Datum next_letters(std::string_view text, std::size_t prompt = 0) {
  return tinker::Datum::next_token(tokens(text), prompt);
}

/// A base model that the server offers.
inline std::string any_model(const tinker::ServiceClient& service) {
  return service.get_server_capabilities().get().value().supported_models.at(0).model_name.value();
}

}  // namespace example
