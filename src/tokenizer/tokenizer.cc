#include "tinker/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>

#include "tokenizer/file_reader.h"
#include "tokenizer/gguf_reader.h"
#include "tokenizer/hf_reader.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tiktoken_reader.h"

namespace tinker {

using tokenizer::EncodeRequest;
using tokenizer::EncodeScratch;
using tokenizer::Pipeline;

namespace {

EncodeRequest request_of(const EncodeOptions& options, bool wants_offsets) {
  return {.adds_special = options.add_special_tokens,
          .parses_special = options.parse_special,
          .wants_offsets = wants_offsets};
}

/// The text of a token as its decoder takes it; nothing for an id that stands for none.
std::optional<std::string_view> decoder_text(const Pipeline& pipeline,
                                             std::int32_t id,
                                             const DecodeOptions& options) {
  if (const auto added = pipeline.added.find(id); added != pipeline.added.end()) {
    const auto& token = added->second;
    if (options.skip_special_tokens && token.is_special && !token.is_shown) return std::nullopt;
    return token.decoder_text;
  }
  if (!pipeline.model->vocabulary().has(id)) return std::nullopt;
  return pipeline.model->vocabulary().bytes(id);
}

}  // namespace

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  TINKER_TRY(auto pipeline, tokenizer::read_tokenizer_file(path));
  return Tokenizer(std::make_shared<const Pipeline>(std::move(pipeline)));
}

Result<Tokenizer> Tokenizer::from_json(std::string_view json) {
  TINKER_TRY(auto pipeline, tokenizer::read_tokenizer_json(json));
  return Tokenizer(std::make_shared<const Pipeline>(std::move(pipeline)));
}

Result<Tokenizer> Tokenizer::from_gguf(std::string_view file) {
  TINKER_TRY(auto pipeline, tokenizer::read_gguf_vocabulary(file));
  return Tokenizer(std::make_shared<const Pipeline>(std::move(pipeline)));
}

Result<Tokenizer> Tokenizer::from_tiktoken(std::string_view ranks, const TiktokenOptions& options) {
  TINKER_TRY(auto pipeline, tokenizer::read_tiktoken(ranks, options));
  return Tokenizer(std::make_shared<const Pipeline>(std::move(pipeline)));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  return encode(text, EncodeOptions());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  EncodeScratch scratch(text.size());
  return tokenizer::encode(*pipeline_, text, request_of(options, false), scratch).ids;
}

Encoding Tokenizer::encode_with_offsets(std::string_view text) const {
  return encode_with_offsets(text, EncodeOptions());
}

Encoding Tokenizer::encode_with_offsets(std::string_view text, const EncodeOptions& options) const {
  EncodeScratch scratch(text.size());
  auto encoded = tokenizer::encode(*pipeline_, text, request_of(options, true), scratch);
  Encoding out = {.ids = std::move(encoded.ids)};
  out.offsets.reserve(encoded.origins.size());
  for (const auto& [begin, end] : encoded.origins)
    out.offsets.push_back({.begin = begin, .end = end});
  return out;
}

std::vector<std::vector<std::int32_t>> Tokenizer::encode_batch(std::span<const std::string> texts,
                                                               const EncodeOptions& options,
                                                               unsigned threads) const {
  std::vector<std::vector<std::int32_t>> out(texts.size());
  const std::size_t bytes = std::transform_reduce(
      texts.begin(), texts.end(), std::size_t{0}, std::plus(), std::mem_fn(&std::string::size));
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    EncodeScratch scratch(bytes);
    const EncodeRequest request = request_of(options, false);
    for (std::size_t i = next++; i < texts.size(); i = next++) {
      out[i] = tokenizer::encode(*pipeline_, texts[i], request, scratch).ids;
    }
  };
  const unsigned wanted =
      threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : threads;
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min<std::size_t>(wanted, texts.size()); ++i) {
    others.emplace_back(work);
  }
  work();
  others.clear();  // joins
  return out;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  return decode(ids, DecodeOptions());
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                              const DecodeOptions& options) const {
  tokenizer::TokenStream stream(pipeline_->decoder);
  std::string out;
  for (const auto id : ids) {
    if (const auto text = decoder_text(*pipeline_, id, options)) stream.push(*text, out);
  }
  stream.finish(out);
  return out;
}

Tokenizer::DecodeStream Tokenizer::decode_stream() const {
  return decode_stream(DecodeOptions());
}

Tokenizer::DecodeStream Tokenizer::decode_stream(const DecodeOptions& options) const {
  return {pipeline_, options};
}

std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto added = pipeline_->added_ids.find(std::string(token));
  if (added != pipeline_->added_ids.end()) return added->second;
  const auto& vocabulary = pipeline_->model->vocabulary();
  if (!pipeline_->model->options().is_byte_level) return vocabulary.find(token);
  const auto bytes = tokenizer::ByteAlphabet::instance().to_bytes(token);
  return bytes ? vocabulary.find(*bytes) : std::nullopt;
}

std::optional<std::string> Tokenizer::id_to_token(std::int32_t id) const {
  const auto added = pipeline_->added.find(id);
  if (added != pipeline_->added.end()) return added->second.content;
  const auto& vocabulary = pipeline_->model->vocabulary();
  if (!vocabulary.has(id)) return std::nullopt;
  const bool is_spelled = pipeline_->model->options().is_byte_level && !vocabulary.is_hidden(id);
  return is_spelled ? tokenizer::ByteAlphabet::instance().to_text(vocabulary.bytes(id))
                    : std::string(vocabulary.bytes(id));
}

std::optional<std::string> Tokenizer::id_to_bytes(std::int32_t id) const {
  const auto text = decoder_text(*pipeline_, id, {});
  return text ? std::optional(pipeline_->decoder.bytes_of(*text)) : std::nullopt;
}

std::function<std::string(std::int32_t)> Tokenizer::token_bytes() const {
  return [self = *this](std::int32_t id) { return self.id_to_bytes(id).value_or(""); };
}

bool Tokenizer::is_special(std::int32_t id) const {
  const auto added = pipeline_->added.find(id);
  return added != pipeline_->added.end() && added->second.is_special;
}

std::size_t Tokenizer::vocab_size() const {
  const auto& vocabulary = pipeline_->model->vocabulary();
  const auto beyond = std::ranges::count_if(
      pipeline_->added, [&](const auto& token) { return !vocabulary.has(token.first); });
  return vocabulary.size() + static_cast<std::size_t>(beyond);
}

Tokenizer::DecodeStream::DecodeStream(std::shared_ptr<const tokenizer::Pipeline> pipeline,
                                      DecodeOptions options)
    : pipeline_(std::move(pipeline)),
      options_(options),
      stream_(std::make_unique<tokenizer::TokenStream>(pipeline_->decoder)) {}
Tokenizer::DecodeStream::DecodeStream(DecodeStream&&) noexcept = default;
Tokenizer::DecodeStream& Tokenizer::DecodeStream::operator=(DecodeStream&&) noexcept = default;
Tokenizer::DecodeStream::~DecodeStream() = default;

std::string Tokenizer::DecodeStream::push(std::int32_t id) {
  std::string out;
  if (const auto text = decoder_text(*pipeline_, id, options_)) stream_->push(*text, out);
  return out;
}

std::string Tokenizer::DecodeStream::finish() {
  std::string out;
  stream_->finish(out);
  return out;
}

}  // namespace tinker
