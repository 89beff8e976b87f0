#include "engine/random_model.h"

#include <cmath>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "engine/model_writer.h"
#include "tinker/check.h"
#include "tinker/rng.h"

namespace tinker::engine {

namespace {

using formats::Safetensors;

/// Nearly normal: the sum of the four 16-bit parts of a word. Exact, so that it is the same
/// everywhere.
double noise(Rng& rng) {
  constexpr double kMean = 4 * 32'767.5;
  constexpr double kDeviation = 37'837.227;  // 65536 / sqrt(3)
  const std::uint64_t word = rng.next();
  const std::uint64_t sum =
      (word & 0xFFFFU) + (word >> 16U & 0xFFFFU) + (word >> 32U & 0xFFFFU) + (word >> 48U);
  return (static_cast<double>(sum) - kMean) / kDeviation;
}

/// Mean and deviation of the values of a tensor.
std::pair<double, double> distribution(const TensorShape& tensor) {
  const auto has = [&](std::string_view part) {
    return tensor.name.find(part) != std::string::npos;
  };
  const double fan_in = std::sqrt(static_cast<double>(tensor.cols));
  if (has("norm")) return {1.0, 0.2};
  if (has(".bias")) return {0.0, 0.5};
  if (has("embed_tokens") || has("lm_head")) return {0.0, 2.0 / fan_in};
  return {0.0, 1.0 / fan_in};
}

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

Result<void> write_random_model(const std::filesystem::path& folder,
                                const ModelConfig& config,
                                std::uint64_t seed,
                                Safetensors::Dtype dtype) {
  TINKER_CHECK(dtype == Safetensors::Dtype::f32 || dtype == Safetensors::Dtype::bf16);
  Rng rng(seed);
  std::deque<std::string> data;
  std::vector<Safetensors::Tensor> tensors;
  for (const auto& tensor : tensors_of(config)) {
    const auto [mean, deviation] = distribution(tensor);
    auto& bytes = data.emplace_back();
    for (std::size_t i = 0; i < tensor.rows * tensor.cols; ++i) {
      const auto value = static_cast<float>(mean + deviation * noise(rng));
      if (dtype == Safetensors::Dtype::f32) {
        append(bytes, value);
      } else {
        append(bytes, base::to_bf16(value));
      }
    }
    tensors.push_back(
        {.name = tensor.name, .dtype = dtype, .shape = tensor.extents(), .data = bytes});
  }
  return write_model(folder, config, tensors);
}

}  // namespace tinker::engine
