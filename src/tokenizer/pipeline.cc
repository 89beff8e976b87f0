#include "tokenizer/pipeline.h"

#include <utility>

namespace tinker::tokenizer {

void Pipeline::add_token(AddedToken token) {
  // The byte-level decoder reads all tokens alike.
  token.decoder_text = token.content;
  if (model->options().is_byte_level) {
    if (auto bytes = ByteAlphabet::instance().to_bytes(token.content)) {
      token.decoder_text = *std::move(bytes);
    }
  }
  added_ids.insert_or_assign(token.content, token.id);
  (token.is_normalized ? normalized_tokens : raw_tokens).add(token);
  const TokenId id = token.id;
  added.insert_or_assign(id, std::move(token));
}

namespace {

class Encoder {
 public:
  Encoder(const Pipeline& pipeline, const EncodeRequest& request, EncodeScratch& scratch)
      : pipeline_(pipeline), request_(request), scratch_(scratch) {}

  Encoded encode(std::string_view text) {
    out_.ids.reserve(text.size() / 4 + 8);
    if (request_.adds_special) add_constant(pipeline_.before, 0);
    split_raw(text);
    if (request_.adds_special) add_constant(pipeline_.after, text.size());
    return std::move(out_);
  }

 private:
  void add(TokenId id, Origin origin) {
    out_.ids.push_back(id);
    if (request_.wants_offsets) out_.origins.push_back(origin);
  }
  void add_constant(const std::vector<TokenId>& ids, std::size_t at) {
    const auto place = static_cast<std::uint32_t>(at);
    for (const TokenId id : ids) add(id, {.begin = place, .end = place});
  }

  void split_raw(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
      const auto match = pipeline_.raw_tokens.find(text, at, !request_.parses_special);
      encode_section(text, at, match.begin);
      if (match.token == nullptr) return;
      add(match.token->id,
          {.begin = static_cast<std::uint32_t>(match.begin),
           .end = static_cast<std::uint32_t>(match.end)});
      at = match.end;
    }
  }

  /// `text[begin, end)`, which has no token that is found in raw text.
  void encode_section(std::string_view text, std::size_t begin, std::size_t end) {
    if (begin == end) return;
    const auto section = text.substr(begin, end - begin);
    if (pipeline_.normalizer.is_identity_for(section)) {
      return split_normalized(section, begin, nullptr);
    }
    AlignedText aligned(section, begin, request_.wants_offsets);
    pipeline_.normalizer.apply(aligned, begin == 0);
    split_normalized(aligned.text(), 0, &aligned);
  }

  /// `origins`: null where `text` is the original at `offset`.
  void split_normalized(std::string_view text, std::size_t offset, const AlignedText* origins) {
    if (pipeline_.normalized_tokens.empty())
      return encode_text(text, 0, text.size(), offset, origins);
    std::size_t at = 0;
    while (at < text.size()) {
      const auto match = pipeline_.normalized_tokens.find(text, at, !request_.parses_special);
      encode_text(text, at, match.begin, offset, origins);
      if (match.token == nullptr) return;
      add(match.token->id, origin_of(match.begin, match.end, offset, origins));
      at = match.end;
    }
  }

  [[nodiscard]] Origin origin_of(std::size_t begin,
                                 std::size_t end,
                                 std::size_t offset,
                                 const AlignedText* origins) const {
    if (!request_.wants_offsets) return {};
    if (origins != nullptr && begin < end) return origins->origin(begin, end);
    return {.begin = static_cast<std::uint32_t>(offset + begin),
            .end = static_cast<std::uint32_t>(offset + end)};
  }

  void encode_text(std::string_view text,
                   std::size_t begin,
                   std::size_t end,
                   std::size_t offset,
                   const AlignedText* origins) {
    if (begin == end) return;
    const auto section = text.substr(begin, end - begin);
    pipeline_.pre_tokenizer.apply(section, scratch_.words);
    auto& pieces = scratch_.pieces;
    for (const auto& span : scratch_.words.words) {
      pieces.clear();
      const auto word = section.substr(span.begin, span.end - span.begin);
      pipeline_.model->encode(word, pieces, scratch_.word);
      std::size_t at = begin + span.begin;
      for (const auto& [id, size] : pieces) {
        add(id, origin_of(at, at + size, offset, origins));
        at += size;
      }
    }
  }

  const Pipeline& pipeline_;
  const EncodeRequest& request_;
  EncodeScratch& scratch_;
  Encoded out_ = {};
};

}  // namespace

Encoded encode(const Pipeline& pipeline,
               std::string_view text,
               const EncodeRequest& request,
               EncodeScratch& scratch) {
  return Encoder(pipeline, request, scratch).encode(text);
}

const ByteAlphabet& ByteAlphabet::instance() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

ByteAlphabet::ByteAlphabet() {
  for (auto& byte : bytes_) byte = -1;
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    characters_[byte] = is_printable ? byte : next++;
    bytes_[characters_[byte]] = static_cast<std::int16_t>(byte);
  }
}

std::string ByteAlphabet::to_text(std::string_view bytes) const {
  std::string out;
  for (const char byte : bytes) append_utf8(out, characters_[static_cast<unsigned char>(byte)]);
  return out;
}

std::optional<std::string> ByteAlphabet::to_bytes(std::string_view text) const {
  std::string out;
  return append_bytes(text, out) ? std::optional(std::move(out)) : std::nullopt;
}

bool ByteAlphabet::append_bytes(std::string_view text, std::string& out) const {
  for (std::size_t at = 0; at < text.size();) {
    const auto [code_point, size] = decode_at(text, at);
    if (code_point >= std::size(bytes_) || bytes_[code_point] < 0) return false;
    out += static_cast<char>(bytes_[code_point]);
    at += size;
  }
  return true;
}

}  // namespace tinker::tokenizer
