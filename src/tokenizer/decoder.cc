#include "tokenizer/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "tokenizer/unicode.h"

namespace tinker::tokenizer {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

/// What a lead byte allows for the one after it (Unicode, table 3-7); nothing for no lead.
struct Follower {
  std::size_t size;  // of the whole
  unsigned char least;
  unsigned char most;
};
std::optional<Follower> follower_of(unsigned char lead) noexcept {
  if (lead >= 0xC2 && lead <= 0xDF) return Follower{.size = 2, .least = 0x80, .most = 0xBF};
  if (lead == 0xE0) return Follower{.size = 3, .least = 0xA0, .most = 0xBF};
  if (lead == 0xED) return Follower{.size = 3, .least = 0x80, .most = 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return Follower{.size = 3, .least = 0x80, .most = 0xBF};
  if (lead == 0xF0) return Follower{.size = 4, .least = 0x90, .most = 0xBF};
  if (lead == 0xF4) return Follower{.size = 4, .least = 0x80, .most = 0x8F};
  if (lead >= 0xF1 && lead <= 0xF3) return Follower{.size = 4, .least = 0x80, .most = 0xBF};
  return std::nullopt;
}

/// How far the bytes at `at` look like a code point; and whether they are one.
struct Prefix {
  std::size_t size;
  bool is_whole;
};
Prefix prefix_at(std::string_view bytes, std::size_t at) noexcept {
  if (byte_at(bytes, at) < 0x80) return {.size = 1, .is_whole = true};
  const auto follower = follower_of(byte_at(bytes, at));
  if (!follower) return {.size = 1, .is_whole = false};
  std::size_t size = 1;
  for (; size < follower->size && at + size < bytes.size(); ++size) {
    const unsigned char byte = byte_at(bytes, at + size);
    const bool is_second = size == 1;
    if (byte < (is_second ? follower->least : 0x80) || byte > (is_second ? follower->most : 0xBF)) {
      break;
    }
  }
  return {.size = size, .is_whole = size == follower->size};
}

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  std::uint8_t byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

bool is_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [size, is_whole] = prefix_at(bytes, at);
    if (!is_whole) return false;
    at += size;
  }
  return true;
}

void run_step(Decoder::Bytes, std::vector<std::string>& tokens) {
  std::string bytes;
  for (const auto& token : tokens) bytes += token;
  tokens = {to_utf8(bytes)};
}

void run_step(const Decoder::ReplaceIn& step, std::vector<std::string>& tokens) {
  for (auto& token : tokens) {
    for (std::size_t at = 0; (at = token.find(step.from, at)) != std::string::npos;) {
      token.replace(at, step.from.size(), step.to);
      at += step.to.size();
    }
  }
}

void run_step(Decoder::ByteFallback, std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto end_run = [&] {
    if (run.empty()) return;
    if (is_utf8(run)) {
      out.push_back(run);
    } else {
      for (std::size_t i = 0; i < run.size(); ++i) out.emplace_back(kReplacement);
    }
    run.clear();
  };
  for (auto& token : tokens) {
    if (const auto byte = fallback_byte(token)) {
      run += *byte;
      continue;
    }
    end_run();
    out.push_back(std::move(token));
  }
  end_run();
  tokens = std::move(out);
}

void run_step(Decoder::Fuse, std::vector<std::string>& tokens) {
  std::string whole;
  for (const auto& token : tokens) whole += token;
  tokens = {std::move(whole)};
}

void run_step(const Decoder::StripFrom& step, std::vector<std::string>& tokens) {
  std::string character;
  append_utf8(character, step.character);
  for (auto& token : tokens) {
    std::string_view rest = token;
    for (std::size_t i = 0; i < step.left && rest.starts_with(character); ++i) {
      rest.remove_prefix(character.size());
    }
    for (std::size_t i = 0; i < step.right && rest.ends_with(character); ++i) {
      rest.remove_suffix(character.size());
    }
    token = std::string(rest);
  }
}

void run_step(const Decoder::MetaspaceBack& step, std::vector<std::string>& tokens) {
  bool is_first = true;
  for (auto& token : tokens) {
    std::string_view rest = token;
    if (is_first && step.strips_first && rest.starts_with(step.replacement)) {
      rest.remove_prefix(step.replacement.size());
    }
    std::vector<std::string> one = {std::string(rest)};
    run_step(Decoder::ReplaceIn{.from = step.replacement, .to = " "}, one);
    token = std::move(one[0]);
    is_first = false;
  }
}

}  // namespace

std::string to_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [size, is_whole] = prefix_at(bytes, at);
    out += is_whole ? bytes.substr(at, size) : kReplacement;
    at += size;
  }
  return out;
}

std::size_t unfinished_bytes(std::string_view bytes) noexcept {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const std::size_t at = bytes.size() - back;
    if (is_continuation(bytes[at])) continue;
    const auto [size, is_whole] = prefix_at(bytes, at);
    return !is_whole && size == back && follower_of(byte_at(bytes, at)) ? back : 0;
  }
  return 0;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) {
    std::visit([&](const auto& known) { run_step(known, tokens); }, step);
  }
  std::string out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && steps_.empty()) out += ' ';
    out += tokens[i];
  }
  return out;
}

}  // namespace tinker::tokenizer
