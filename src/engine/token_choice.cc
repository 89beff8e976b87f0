#include "engine/token_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/head.h"

namespace tinker::engine {
namespace {

// The first guess of how many tokens have most of the probability.
constexpr std::size_t kFirstBest = 256;
// Divided by less, logits might not be finite.
constexpr double kLowestTemperature = 1e-30;

}  // namespace

Distribution::Distribution(const Kernels& kernels,
                           std::span<const float> logits,
                           double temperature)
    : kernels_(kernels),
      logits_(logits),
      scale_(temperature == 0
                 ? 1.0F
                 : static_cast<float>(1.0 / std::max(temperature, kLowestTemperature))),
      is_greedy_(temperature == 0) {
  for (std::size_t begin = 0; begin < logits.size(); begin += Head::kBlock) {
    parts_.push_back(kernels.softmax_part(
        logits.data() + begin, std::min(Head::kBlock, logits.size() - begin), scale_));
  }
  lse_ = log_sum_exp(parts_);
}

std::int32_t Distribution::most_likely() const {
  return static_cast<std::int32_t>(std::ranges::max_element(logits_) - logits_.begin());
}

std::int32_t Distribution::draw(double u) const {
  if (is_greedy_) return most_likely();
  // The block is found by the sums of the blocks, the token by the probabilities within.
  const auto share = [&](const SoftmaxPart& part) {
    return static_cast<double>(part.sum) *
           std::exp(static_cast<double>(part.max) - static_cast<double>(lse_));
  };
  double left = u;
  std::size_t block = 0;
  for (; block + 1 < parts_.size() && left >= share(parts_[block]); ++block)
    left -= share(parts_[block]);
  const std::size_t begin = block * Head::kBlock;
  std::vector<float> p(logits_.begin() + static_cast<std::ptrdiff_t>(begin),
                       logits_.begin() + static_cast<std::ptrdiff_t>(
                                             std::min(begin + Head::kBlock, logits_.size())));
  for (float& logit : p) logit *= scale_;
  kernels_.softmax_values(p.data(), p.size(), lse_, 1.0F);
  for (std::size_t i = 0; i < p.size(); ++i) {
    left -= static_cast<double>(p[i]);
    if (left < 0) return static_cast<std::int32_t>(begin + i);
  }
  // What rounding leaves over goes to a token that is possible.
  return most_likely();
}

std::vector<std::int32_t> Distribution::best(std::size_t k) const {
  std::vector<std::int32_t> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto is_before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits_[static_cast<std::size_t>(a)];
    const float y = logits_[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  k = std::min(k, ids.size());
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(k);
  if (k < ids.size()) std::nth_element(ids.begin(), end, ids.end(), is_before);
  std::sort(ids.begin(), end, is_before);
  ids.resize(k);
  return ids;
}

std::int32_t Distribution::draw(double u, std::int64_t top_k, double top_p) const {
  if (is_greedy_) return most_likely();
  const bool has_k = top_k > 0 && static_cast<std::size_t>(top_k) < logits_.size();
  if (!has_k && top_p >= 1) return draw(u);
  const std::size_t most = has_k ? static_cast<std::size_t>(top_k) : logits_.size();
  for (std::size_t guess = has_k ? most : std::min(most, kFirstBest);;
       guess = std::min(most, 4 * guess)) {
    const auto ids = best(guess);
    std::vector<double> p;
    double whole = 0;
    for (const auto id : ids) {
      p.push_back(std::exp(static_cast<double>(logprob(id))));
      whole += p.back();
    }
    // Of all tokens, or of the top_k ones.
    const double enough = top_p * (has_k ? whole : 1.0);
    double kept = 0;
    std::size_t count = 0;
    while (count < p.size() && (count == 0 || kept < enough)) kept += p[count++];
    if (kept < enough && guess < most) continue;
    double left = u * kept;
    for (std::size_t i = 0; i < count; ++i) {
      left -= p[i];
      if (left < 0) return ids[i];
    }
    return ids.front();
  }
}

std::vector<TopkLogprobs::Cell> Distribution::top(std::size_t k) const {
  std::vector<TopkLogprobs::Cell> out;
  for (const auto id : best(k)) out.emplace_back(id, logprob(id));
  return out;
}

}  // namespace tinker::engine
