#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/packed_matrix.h"
#include "engine/resumable.h"
#include "tinker/result.h"

namespace tinker::engine {

struct LoraShape {
  std::size_t rank = 32;
  float alpha = 32;
  bool train_attn = true;
  bool train_mlp = true;
  bool train_unembed = true;

  friend bool operator==(const LoraShape&, const LoraShape&) = default;
};

/// Projections that read the same input, so that their first factors are one product.
enum class LoraGroup : std::uint8_t { qkv, o, gate_up, down, head };
inline constexpr std::size_t kLayerGroups = 4;
/// The first projection of a group, and how many it has; the head has one of its own.
struct GroupMembers {
  std::size_t first = 0;
  std::size_t count = 0;
};
constexpr GroupMembers members_of(LoraGroup group) {
  switch (group) {
    case LoraGroup::qkv: return {.first = 0, .count = 3};
    case LoraGroup::o: return {.first = 3, .count = 1};
    case LoraGroup::gate_up: return {.first = 4, .count = 2};
    case LoraGroup::down: return {.first = 6, .count = 1};
    case LoraGroup::head: break;
  }
  return {.first = 0, .count = 1};
}

/// One adapted matrix: where its factors lie among the parameters. A: (rank, in)  B^T: (rank, out)
struct LoraModule {
  std::string name = {};  ///< "model.layers.0.self_attn.q_proj" or "lm_head"
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t a = 0;
  std::size_t b = 0;

  friend bool operator==(const LoraModule&, const LoraModule&) = default;
};

/// What an adapter consists of. The parameters of all modules lie in one array, and so do their
/// gradients and moments.
///
/// Immutable.
class LoraLayout {
 public:
  /// Fails with `invalid_argument` for a rank of 0 or beyond 2^20, or when nothing would be
  /// trained.
  static Result<std::shared_ptr<const LoraLayout>> create(const ModelConfig& model,
                                                          const LoraShape& config);

  [[nodiscard]] const LoraShape& config() const noexcept { return config_; }
  [[nodiscard]] float scale() const noexcept {
    return config_.alpha / static_cast<float>(config_.rank);
  }
  [[nodiscard]] std::size_t parameters() const noexcept { return parameters_; }
  [[nodiscard]] std::span<const LoraModule> modules() const noexcept { return modules_; }
  [[nodiscard]] bool has(LoraGroup group) const noexcept;
  /// Whether a model of this shape has the matrices that are adapted.
  [[nodiscard]] bool fits(const ModelConfig& model) const;
  /// Requires that the group of it is there. For the head, any layer will do.
  [[nodiscard]] const LoraModule& module(std::size_t layer,
                                         LoraGroup group,
                                         std::size_t member) const;

 private:
  LoraShape config_;
  std::size_t layers_ = 0;
  std::size_t modules_per_layer_ = 0;
  std::size_t parameters_ = 0;
  std::vector<LoraModule> modules_;
};

/// A group's factors as the products read them. The rank is padded to the kernels' step.
struct PackedGroup {
  PackedMatrix a = {};                 ///< (count * padded rank, in)
  std::array<PackedMatrix, 3> b = {};  ///< (out, padded rank), scaled
  std::array<PackedMatrix, 3> a_transposed = {};
  std::array<PackedMatrix, 3> b_transposed = {};
};

/// The parameters of an adapter at one time. A snapshot is a copy of the pointer.
///
/// Immutable.
class Adapter {
 public:
  /// B = 0, A uniform in +-1/sqrt(in), the same for the same seed on every machine.
  static std::shared_ptr<const Adapter> create(const Model& model,
                                               std::shared_ptr<const LoraLayout> layout,
                                               std::uint64_t seed,
                                               ThreadPool& threads);
  /// With these parameters, as many as the layout has.
  static std::shared_ptr<const Adapter> with_values(const Model& model,
                                                    std::shared_ptr<const LoraLayout> layout,
                                                    Floats values,
                                                    ThreadPool& threads);
  /// Both in steps.
  static Resumable<std::shared_ptr<const Adapter>> begin_create(
      const Model& model,
      std::shared_ptr<const LoraLayout> layout,
      std::uint64_t seed,
      ThreadPool& threads);
  static Resumable<std::shared_ptr<const Adapter>> begin_with_values(
      const Model& model,
      std::shared_ptr<const LoraLayout> layout,
      Floats values,
      ThreadPool& threads);

  /// What such an adapter takes.
  static std::size_t bytes(const Kernels& kernels, const LoraLayout& layout);
  [[nodiscard]] std::size_t bytes() const { return bytes(*kernels_, *layout_); }

  /// Whether the model can use it: one of this shape, computed by the same kernels.
  [[nodiscard]] bool fits(const Model& model) const;
  [[nodiscard]] const LoraLayout& layout() const noexcept { return *layout_; }
  [[nodiscard]] const std::shared_ptr<const LoraLayout>& shared_layout() const noexcept {
    return layout_;
  }
  [[nodiscard]] std::span<const float> values() const noexcept { return values_.span(); }
  /// Rank with the zeros that fill its last step.
  [[nodiscard]] std::size_t padded_rank() const noexcept { return padded_rank_; }
  /// Nothing where the group is not adapted. For the head, any layer will do.
  [[nodiscard]] const PackedGroup* find(std::size_t layer, LoraGroup group) const;

 private:
  Adapter() = default;

  const Kernels* kernels_ = nullptr;
  std::shared_ptr<const LoraLayout> layout_;
  Floats values_;
  std::size_t padded_rank_ = 0;
  std::vector<std::optional<PackedGroup>> groups_;  // kLayerGroups of each layer, then the head
};

}  // namespace tinker::engine
