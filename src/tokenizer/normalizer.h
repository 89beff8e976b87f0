#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/unicode.h"

namespace tinker::tokenizer {

/// Puts it in front of what is not empty.
struct Prepend {
  std::string content = {};
};
struct Replace {
  std::string from = {};
  std::string to = {};
};
/// Takes white space off the ends.
struct Strip {
  bool left = false;
  bool right = false;
};
/// A space in front, unless there is one.
struct PrefixSpace {};
/// Spaces become `replacement`, and one comes first, unless there is one.
struct Metaspace {
  enum class Scheme : std::uint8_t { always, first, never };
  std::string replacement = "▁";
  Scheme scheme = Scheme::always;
};
using TextStep = std::variant<NormalForm, Prepend, Replace, Strip, PrefixSpace, Metaspace>;

/// What happens to text before it is split. Empty text stays empty.
///
/// Immutable.
class Normalizer {
 public:
  void add(TextStep step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] bool empty() const noexcept { return steps_.empty(); }
  /// `is_first`: the text begins where the whole began.
  void apply(AlignedText& text, bool is_first) const;
  /// Whether `apply` would change nothing, for certain.
  [[nodiscard]] bool is_identity_for(std::string_view text) const;

 private:
  std::vector<TextStep> steps_;
};

}  // namespace tinker::tokenizer
