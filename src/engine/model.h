#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/kernels.h"
#include "engine/memory.h"
#include "engine/model_config.h"
#include "engine/model_files.h"
#include "engine/packed_matrix.h"
#include "engine/thread_pool.h"
#include "tinker/result.h"

namespace tinker::engine {

/// The matrices of a layer that may have an adapter, in the order of the computation.
enum class Projection : std::uint8_t { q, k, v, o, gate, up, down };
inline constexpr std::size_t kProjections = 7;
inline constexpr std::array kAllProjections = {Projection::q,
                                               Projection::k,
                                               Projection::v,
                                               Projection::o,
                                               Projection::gate,
                                               Projection::up,
                                               Projection::down};
/// "self_attn.q_proj"
std::string_view name_of(Projection projection);

struct MatrixSize {
  std::size_t out = 0;
  std::size_t in = 0;
};
MatrixSize size_of(const ModelConfig& config, Projection projection);

struct Layer {
  std::array<PackedMatrix, kProjections> matrices = {};
  std::array<Floats, 3> biases = {};  ///< Of q, k, v; empty where there are none.
  Floats input_norm = {};
  Floats post_attention_norm = {};
  Floats q_norm = {};  ///< Empty where there is none.
  Floats k_norm = {};

  [[nodiscard]] const PackedMatrix& matrix(Projection projection) const {
    return matrices[static_cast<std::size_t>(projection)];
  }
};

/// The frozen weights, packed for the kernels that will read them.
///
/// Immutable.
class Model {
 public:
  static Result<std::shared_ptr<const Model>> load(const ModelFiles& files,
                                                   const Kernels& kernels,
                                                   ThreadPool& threads);

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] const Kernels& kernels() const noexcept { return *kernels_; }
  [[nodiscard]] const Layer& layer(std::size_t index) const { return layers_[index]; }
  [[nodiscard]] const Floats& final_norm() const noexcept { return final_norm_; }
  [[nodiscard]] const PackedMatrix& head() const noexcept { return head_; }
  void embed(std::int32_t token, std::span<float> out) const;
  /// What each pair of a head turns by from one position to the next: (head_dim / 2)
  [[nodiscard]] std::span<const float> frequencies() const noexcept { return frequencies_; }
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// What the matrices of such a model will take.
  static std::size_t bytes(const ModelConfig& config, const Kernels& kernels);

 private:
  class Loader;
  Model() = default;

  ModelConfig config_;
  const Kernels* kernels_ = nullptr;
  std::vector<Layer> layers_;
  Floats final_norm_;
  PackedMatrix embedding_;  // empty if the head is it
  PackedMatrix head_;
  std::vector<float> frequencies_;
};

/// Cosines and sines of all positions up to some; in floats at every step, as the models were
/// trained with.
class RopeTable {
 public:
  explicit RopeTable(const Model& model) : frequencies_(model.frequencies()) {}
  /// Makes the table long enough for `positions`.
  void reserve(std::size_t positions);
  [[nodiscard]] const float* cos(std::size_t position) const {
    return cos_.data() + position * frequencies_.size();
  }
  [[nodiscard]] const float* sin(std::size_t position) const {
    return sin_.data() + position * frequencies_.size();
  }
  /// To turn back.
  [[nodiscard]] const float* minus_sin(std::size_t position) const {
    return minus_sin_.data() + position * frequencies_.size();
  }

 private:
  std::span<const float> frequencies_;
  std::vector<float> cos_;
  std::vector<float> sin_;
  std::vector<float> minus_sin_;
};

}  // namespace tinker::engine
