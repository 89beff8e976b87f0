#include "tokenizer/decoder.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

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

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    out += text.substr(at, found - at);
    if (found == text.size()) return out;
    out += to;
    at = found + from.size();
  }
}

/// Takes up to `count` of `character` off the beginning; says how many.
std::size_t strip_left(std::string_view& text, std::string_view character, std::size_t count) {
  std::size_t taken = 0;
  for (; taken < count && text.starts_with(character); ++taken)
    text.remove_prefix(character.size());
  return taken;
}

/// How many bytes at the end are up to `count` of `character`.
std::size_t tail_of(std::string_view text, std::string_view character, std::size_t count) {
  const std::size_t size = text.size();
  for (; count > 0 && text.ends_with(character); --count) text.remove_suffix(character.size());
  return size - text.size();
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

std::string Decoder::bytes_of(std::string_view token) const {
  std::string out(token);
  for (const auto& step : steps_) {
    if (const auto* const replace = std::get_if<ReplaceIn>(&step)) {
      out = replaced(out, replace->from, replace->to);
    } else if (const auto* const metaspace = std::get_if<MetaspaceBack>(&step)) {
      out = replaced(out, metaspace->replacement, " ");
    } else if (std::holds_alternative<ByteFallback>(step)) {
      if (const auto byte = fallback_byte(out)) out = std::string(1, *byte);
    }
  }
  return out;
}

bool TokenStream::is_fused_before(std::size_t step) const noexcept {
  const auto& steps = decoder_->steps_;
  return std::any_of(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(step), [](auto& s) {
    return std::holds_alternative<Decoder::Fuse>(s) || std::holds_alternative<Decoder::Bytes>(s);
  });
}

void TokenStream::run(std::size_t step, std::string_view token, std::string& out) {
  if (step < states_.size()) {
    std::visit([&](const auto& known) { run_step(known, step, token, out); },
               decoder_->steps_[step]);
    return;
  }
  if (states_.empty() && has_begun_) out += ' ';
  has_begun_ = true;
  out += token;
}

void TokenStream::run_step(const Decoder::Bytes&,
                           std::size_t step,
                           std::string_view token,
                           std::string& out) {
  if (token.empty()) return;
  if (states_[step].held.empty() && is_utf8(token)) return run(step + 1, token, out);
  std::string bytes = std::move(states_[step].held).append(token);
  const std::size_t left = unfinished_bytes(bytes);
  states_[step].held = bytes.substr(bytes.size() - left);
  bytes.resize(bytes.size() - left);
  if (!bytes.empty()) run(step + 1, to_utf8(bytes), out);
}

void TokenStream::run_step(const Decoder::ReplaceIn& replace,
                           std::size_t step,
                           std::string_view token,
                           std::string& out) {
  run(step + 1, replaced(token, replace.from, replace.to), out);
}

void TokenStream::run_step(const Decoder::ByteFallback&,
                           std::size_t step,
                           std::string_view token,
                           std::string& out) {
  if (const auto byte = fallback_byte(token)) {
    states_[step].held += *byte;
    return;
  }
  end_run(step, out);
  run(step + 1, token, out);
}

void TokenStream::end_run(std::size_t step, std::string& out) {
  const auto bytes = std::exchange(states_[step].held, {});
  if (bytes.empty()) return;
  if (is_utf8(bytes)) return run(step + 1, bytes, out);
  for (std::size_t i = 0; i < bytes.size(); ++i) run(step + 1, kReplacement, out);
}

void TokenStream::run_step(const Decoder::Fuse&,
                           std::size_t step,
                           std::string_view token,
                           std::string& out) {
  run(step + 1, token, out);
}

void TokenStream::run_step(const Decoder::StripFrom& strip,
                           std::size_t step,
                           std::string_view token,
                           std::string& out) {
  if (is_fused_before(step)) return strip_whole(strip, step, token, out);
  strip_left(token, strip.character, strip.left);
  token.remove_suffix(tail_of(token, strip.character, strip.right));
  run(step + 1, token, out);
}

/// The beginning goes when it comes; what may be the end is held back.
void TokenStream::strip_whole(const Decoder::StripFrom& strip,
                              std::size_t step,
                              std::string_view token,
                              std::string& out) {
  State& state = states_[step];
  if (!state.is_strip_over) {
    state.stripped += strip_left(token, strip.character, strip.left - state.stripped);
    state.is_strip_over = !token.empty();
  }
  std::string text = std::move(state.held).append(token);
  const std::size_t tail = tail_of(text, strip.character, strip.right);
  state.held = text.substr(text.size() - tail);
  text.resize(text.size() - tail);
  if (!text.empty()) run(step + 1, text, out);
}

void TokenStream::run_step(const Decoder::MetaspaceBack& metaspace,
                           std::size_t step,
                           std::string_view token,
                           std::string& out) {
  const bool is_first = !std::exchange(states_[step].has_begun, true);
  if (is_first && metaspace.strips_first) strip_left(token, metaspace.replacement, token.size());
  run(step + 1, replaced(token, metaspace.replacement, " "), out);
}

void TokenStream::finish(std::string& out) {
  for (std::size_t step = 0; step < states_.size(); ++step) {
    if (std::holds_alternative<Decoder::ByteFallback>(decoder_->steps_[step])) end_run(step, out);
    const auto held = std::exchange(states_[step].held, {});
    // What Bytes held is the beginning of a character; what Strip held is to go.
    if (std::holds_alternative<Decoder::Bytes>(decoder_->steps_[step]) && !held.empty()) {
      run(step + 1, to_utf8(held), out);
    }
    states_[step] = {};
  }
  has_begun_ = false;
}

}  // namespace tinker::tokenizer
