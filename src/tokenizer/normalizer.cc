#include "tokenizer/normalizer.h"

#include <algorithm>

namespace tinker::tokenizer {

namespace {

void apply_step(NormalForm form, AlignedText& text, bool) {
  if (is_surely_normalized(text.text(), form)) return;
  std::vector<Origin> origins;
  auto changed = normalize(text.text(), form, text.is_tracked() ? &origins : nullptr);
  text.assign(std::move(changed), origins);
}

void apply_step(const Prepend& step, AlignedText& text, bool) {
  if (!text.text().empty()) text.replace(0, 0, step.content);
}

void apply_step(const Replace& step, AlignedText& text, bool) {
  text.replace_all(step.from, step.to);
}

void apply_step(const Strip& step, AlignedText& text, bool) {
  const auto is_space = [&](std::size_t at) {
    return CodePointSet::space().contains(decode_at(text.text(), at).code_point);
  };
  std::size_t end = text.text().size();
  std::size_t solid = 0;  // after the last that is no space
  for (std::size_t at = 0; at < end; at += decode_at(text.text(), at).size) {
    if (!is_space(at)) solid = at + decode_at(text.text(), at).size;
  }
  if (step.right) text.replace(solid, end, "");
  end = text.text().size();
  std::size_t begin = 0;
  while (begin < end && is_space(begin)) begin += decode_at(text.text(), begin).size;
  if (step.left) text.replace(0, begin, "");
}

void apply_step(PrefixSpace, AlignedText& text, bool) {
  if (!text.text().empty() && !text.text().starts_with(' ')) text.replace(0, 0, " ");
}

void apply_step(const Metaspace& step, AlignedText& text, bool is_first) {
  using Scheme = Metaspace::Scheme;
  text.replace_all(" ", step.replacement);
  const bool is_wanted =
      step.scheme == Scheme::always || (step.scheme == Scheme::first && is_first);
  if (!is_wanted || text.text().empty() || text.text().starts_with(step.replacement)) return;
  text.replace(0, 0, step.replacement);
}

}  // namespace

void Normalizer::apply(AlignedText& text, bool is_first) const {
  for (const auto& step : steps_) {
    std::visit([&](const auto& known) { apply_step(known, text, is_first); }, step);
  }
}

bool Normalizer::is_identity_for(std::string_view text) const {
  return std::ranges::all_of(steps_, [text](const TextStep& step) {
    const auto* const form = std::get_if<NormalForm>(&step);
    return form != nullptr && is_surely_normalized(text, *form);
  });
}

}  // namespace tinker::tokenizer
