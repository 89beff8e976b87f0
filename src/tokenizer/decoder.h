#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace tinker::tokenizer {

/// Makes text of tokens.
///
/// Immutable.
class Decoder {
 public:
  /// The bytes of the tokens, whatever is not UTF-8 replaced.
  struct Bytes {};
  struct ReplaceIn {
    std::string from = {};
    std::string to = {};
  };
  /// Runs of "<0x41>" and its like become the text they spell, or U+FFFD for each.
  struct ByteFallback {};
  /// All are one from here on.
  struct Fuse {};
  /// Takes up to that many of a character off each token.
  struct StripFrom {
    std::string character = " ";
    std::size_t left = 0;
    std::size_t right = 0;
  };
  /// `replacement` becomes a space, which the first token goes without.
  struct MetaspaceBack {
    std::string replacement = "▁";
    bool strips_first = true;
  };
  using Step = std::variant<Bytes, ReplaceIn, ByteFallback, Fuse, StripFrom, MetaspaceBack>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  /// What a token stands for in the middle of a text.
  [[nodiscard]] std::string bytes_of(std::string_view token) const;

 private:
  friend class TokenStream;
  std::vector<Step> steps_;  // without any, tokens are joined by spaces, as in the library
};

/// Passes tokens through the steps of a decoder, as far as they are certain: more tokens never
/// change what was given.
///
/// Thread-compatible. The decoder must outlive it.
class TokenStream {
 public:
  explicit TokenStream(const Decoder& decoder)
      : decoder_(&decoder), states_(decoder.steps_.size()) {}

  /// Appends to `out`.
  void push(std::string_view token, std::string& out) { run(0, token, out); }
  /// Appends what was held back, and begins anew.
  void finish(std::string& out);

 private:
  struct State {
    std::string held = {};
    bool has_begun = false;      // a token came
    std::size_t stripped = 0;    // characters that were taken off the beginning
    bool is_strip_over = false;  // the beginning is past
  };
  void run(std::size_t step, std::string_view token, std::string& out);
  void run_step(const Decoder::Bytes&, std::size_t step, std::string_view token, std::string& out);
  void run_step(const Decoder::ReplaceIn&, std::size_t, std::string_view token, std::string& out);
  void run_step(const Decoder::ByteFallback&,
                std::size_t,
                std::string_view token,
                std::string& out);
  void run_step(const Decoder::Fuse&, std::size_t step, std::string_view token, std::string& out);
  void run_step(const Decoder::StripFrom&, std::size_t, std::string_view token, std::string& out);
  void run_step(const Decoder::MetaspaceBack&, std::size_t, std::string_view, std::string& out);
  void strip_whole(const Decoder::StripFrom&,
                   std::size_t,
                   std::string_view token,
                   std::string& out);
  void end_run(std::size_t step, std::string& out);
  /// Whether what comes to a step is one text, in pieces.
  [[nodiscard]] bool is_fused_before(std::size_t step) const noexcept;

  const Decoder* decoder_;
  std::vector<State> states_;
  bool has_begun_ = false;
};

/// `bytes` as UTF-8: each of what is not becomes U+FFFD, longest beginnings of code points as one.
std::string to_utf8(std::string_view bytes);
/// How many bytes at the end of `bytes` may be the beginning of a code point.
std::size_t unfinished_bytes(std::string_view bytes) noexcept;

}  // namespace tinker::tokenizer
