#include "tinker/types/sample.h"

#include <cmath>

#include "tinker/check.h"

namespace tinker {

std::optional<std::vector<TopkLogprobs::Cell>> TopkLogprobs::at(std::size_t position) const {
  TINKER_CHECK(position < length);
  const std::size_t row = position * k;
  const auto is_padding = [&](std::size_t i) {
    return token_ids[i] == 0 && logprobs[i] == kMaskLogprob;
  };
  if (k == 0 || is_padding(row)) return std::nullopt;

  std::size_t end = row + k;
  while (is_padding(end - 1)) --end;
  std::vector<Cell> cells;
  cells.reserve(end - row);
  for (std::size_t i = row; i < end; ++i) cells.emplace_back(token_ids[i], logprobs[i]);
  return cells;
}

std::optional<float> SampleResponse::prompt_logprob(std::size_t position) const {
  if (position >= prompt_logprobs.size() || std::isnan(prompt_logprobs[position])) {
    return std::nullopt;
  }
  return prompt_logprobs[position];
}

}  // namespace tinker
