#include "tokenizer/tiktoken_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace tinker::tokenizer {

namespace {

Error refuse(std::size_t line, std::string_view why) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("tiktoken file, line ", line, ": ", why)};
}

/// Standard base64 with its padding.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU);
  }
  return out;
}

}  // namespace

Result<Vocabulary> read_ranks(std::string_view ranks) {
  Vocabulary out;
  const auto lines = static_cast<std::size_t>(std::ranges::count(ranks, '\n')) + 1;
  out.reserve(lines, ranks.size() / 2);
  for (std::size_t line = 1; !ranks.empty(); ++line) {
    const std::size_t end = std::min(ranks.find('\n'), ranks.size());
    std::string_view text = ranks.substr(0, end);
    ranks.remove_prefix(std::min(end + 1, ranks.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) continue;
    const std::size_t space = std::min(text.find(' '), text.size());
    const auto bytes = decode_base64(text.substr(0, space));
    if (!bytes) return refuse(line, "no base64");
    TokenId rank = 0;
    const auto number = text.substr(std::min(space + 1, text.size()));
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (error != std::errc() || stop != number.data() + number.size())
      return refuse(line, "no rank");
    if (out.find(*bytes)) return refuse(line, "the same token again");
    if (auto added = out.add(*bytes, rank); !added.ok()) return refuse(line, added.error().message);
  }
  return out;
}

std::vector<Bpe::Merge> merges_of(const Vocabulary& vocabulary) {
  std::vector<Bpe::Merge> merges;
  for (std::size_t id = 0; id < vocabulary.limit(); ++id) {
    const auto whole = vocabulary.bytes(static_cast<TokenId>(id));
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
      const auto left = vocabulary.find(whole.substr(0, cut));
      if (!left) continue;
      const auto right = vocabulary.find(whole.substr(cut));
      if (!right) continue;
      merges.push_back({.left = *left, .right = *right, .whole = static_cast<TokenId>(id)});
    }
  }
  return merges;
}

Result<Pipeline> read_tiktoken(std::string_view ranks, const TiktokenOptions& options) {
  TINKER_TRY(auto vocabulary, read_ranks(ranks));
  return tiktoken_pipeline(std::move(vocabulary), options);
}

Result<Pipeline> tiktoken_pipeline(Vocabulary vocabulary, const TiktokenOptions& options) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (vocabulary.find({&text, 1})) continue;
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("tiktoken file: there is no token for byte ", byte)};
  }
  Pipeline out;
  TINKER_TRY(auto pattern, Pattern::compile(options.pattern, Dialect::rust));
  // What no word covers is left out.
  out.pre_tokenizer.add(
      Split(std::move(pattern), {.behavior = Split::Behavior::removed, .is_inverted = true}));
  const auto merges = merges_of(vocabulary);
  out.model = std::make_unique<Bpe>(
      std::move(vocabulary), merges, Bpe::Options{.is_byte_level = true, .ignore_merges = true});
  for (const auto& [content, id, is_shown] : options.special_tokens) {
    if (content.empty() || id < 0 || id > kMaxTokenId || out.model->vocabulary().has(id)) {
      return Error{.code = ErrorCode::invalid_argument,
                   .message = base::concat("special token '", content, "' cannot have id ", id)};
    }
    out.add_token({.id = id, .content = content, .is_special = true, .is_shown = is_shown});
  }
  out.decoder.add(Decoder::Bytes());
  return out;
}

}  // namespace tinker::tokenizer
