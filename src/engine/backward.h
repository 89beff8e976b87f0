#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/activations.h"
#include "engine/forward.h"

namespace tinker::engine {

/// Rows of one sequence.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// What came out of a layer's factors, and the rows it belongs to, for the gradient of a factor.
struct FactorGradient {
  ElementRows u = {};  ///< (rows, ...) the side of the rank
  std::size_t u_column = 0;
  float scale = 1;
  ElementRows x = {};  ///< (rows, columns)
  std::size_t columns = 0;
  float* g = nullptr;  ///< (rank, g_stride): added to
  std::size_t g_stride = 0;
};

/// The way back through the layers: gradients of the residual stream, and of the factors of one
/// adapter. Frozen weights get none.
///
/// Every gradient is a chain over the tokens of one sequence after the other and goes on from what
/// the array holds, so it does not matter how a batch is cut between sequences.
///
/// Thread-compatible.
class Backward {
 public:
  Backward(const Model& model, ThreadPool& threads) : model_(model), threads_(threads) {}

  /// Bytes that the arrays of a pass will take.
  static std::size_t bytes(const Model& model, ThreadPool& threads, const PassShape& shape);

  [[nodiscard]] std::size_t bytes_held() const noexcept;
  /// Gives the arrays back, until the next batch.
  void release() {
    shape_ = {};
    arena_ = {};
  }

  /// Must be called before the layers of a batch. `gradients` is as long as the adapter's
  /// parameters.
  void begin(const PassShape& shape,
             const Adapter& adapter,
             std::span<const RowRange> sequences,
             std::span<float> gradients);
  /// Steps that a layer takes. They are taken in order; what comes between them may use anything
  /// but the arrays of this object, of `forward` and of the pass.
  [[nodiscard]] std::size_t layer_steps(const Forward& forward) const;
  /// From the gradient of the layer's output to that of its input, both in `pass.output`.
  void layer_step(const Forward& forward, const LayerPass& pass, std::size_t step);
  /// Adds to the gradient of a factor.
  void add(const FactorGradient& gradient, std::span<const RowRange> sequences);

 private:
  void plan(const ActivationPlan& plan, Arena& arena);
  /// The next steps are of these rows.
  void take(const RowPiece& piece);
  void to_attention(const Forward& forward,
                    std::size_t index,
                    const LayerState& state,
                    const FloatRows& d_x,
                    const ElementRows& d_out);
  void to_input(const Forward& forward,
                std::size_t index,
                const LayerState& state,
                const FloatRows& d_x);
  /// d_low = B^T d_y of each member of the group, and the gradients of both factors.
  void lower(std::size_t layer,
             LoraGroup group,
             const ElementRows& low,
             std::span<const ElementRows> d_y,
             const ElementRows& input);
  /// The gradient of a group's input, as `output`.
  void raise(std::size_t layer,
             LoraGroup group,
             std::span<const ElementRows> d_y,
             void* c,
             std::size_t c_stride,
             Output output);
  void transpose(std::size_t layer);
  /// Positions of each sequence whose queries are taken in one step of the attention.
  [[nodiscard]] std::size_t query_positions() const noexcept;
  [[nodiscard]] std::size_t attention_steps() const noexcept;
  void attention(const Forward& forward, const LayerPass& pass, std::size_t step);
  void rotate_back(const Forward& forward,
                   const RowPiece& piece,
                   std::size_t layer,
                   const LayerState& state);
  /// d_x += what d_normed_ gives for normed_ = norm(x)
  void norm(const Forward& forward, const FloatRows& x, const Floats& gain, const FloatRows& d_x);
  void to_elements(const Forward& forward,
                   const FloatRows& x,
                   std::size_t columns,
                   const ElementRows& out);

  const Model& model_;
  ThreadPool& threads_;
  const Adapter* adapter_ = nullptr;
  std::span<const RowRange> sequences_;
  std::size_t longest_ = 0;  // of the sequences
  std::span<float> gradients_;

  PassShape shape_;
  Arena arena_;
  std::array<PackedMatrix, kProjections> transposed_;
  ElementRows d_out_;  // (rows, q_size)
  FloatRows d_q_;      // (rows, q_size)
  FloatRows d_k_;      // (rows, kv_size)
  FloatRows d_v_;
  // Of the rows of a piece:
  std::size_t rows_ = 0;
  std::vector<RowRange> ranges_;  // of its sequences
  ElementRows d_residual_;        // (rows, hidden)
  ElementRows normed_;            // (rows, hidden)
  FloatRows d_normed_;            // (rows, hidden)
  float* inverse_ = nullptr;
  ElementRows gated_;   // (rows, ffn)
  FloatRows d_gated_;   // (rows, ffn)
  ElementRows d_gate_;  // (rows, ffn)
  ElementRows d_up_;
  std::array<ElementRows, 3> d_qkv_;
  ElementRows d_low_;  // (rows, 3 * padded rank)

  std::byte* packed_u_ = nullptr;  // of one gradient
  std::vector<float*> scratch_;    // of each thread
  std::vector<Product> products_;
};

}  // namespace tinker::engine
