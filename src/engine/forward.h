#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/activations.h"
#include "engine/adapter.h"
#include "engine/kv_pages.h"
#include "engine/model.h"
#include "engine/product.h"
#include "engine/thread_pool.h"

namespace tinker::engine {

/// One token on its way through the model.
struct TokenRow {
  std::int32_t token = 0;
  std::uint32_t sequence = 0;  ///< Index into `TokenBatch::pages`.
  std::size_t position = 0;    ///< In its sequence.
};

/// Neighbouring rows that have the same adapter, or none.
struct AdapterRun {
  const Adapter* adapter = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Tokens that are computed together. Those of a sequence are neighbours, in the order of their
/// positions; what came before them is in the pages of the sequence, where their own keys and
/// values go.
struct TokenBatch {
  std::span<const TokenRow> rows = {};
  std::span<const AdapterRun> runs = {};
  std::span<const std::span<std::byte* const>> pages = {};
};

/// Neighbouring rows of a batch that go through a layer together. In a sequence it begins at a
/// multiple of `kKeyBlock`, so that no chain of a gradient is cut where it would change.
struct RowPiece {
  std::size_t first = 0;
  std::size_t count = 0;
  std::vector<AdapterRun> runs = {};  ///< Counted from the first row of the piece.
};

/// A layer on its way over a batch.
struct LayerPass {
  std::size_t index = 0;
  LayerState state = {};
  const KvLayout* kv = nullptr;
  std::size_t page_layer = 0;  ///< Which layer of the pages its keys and values are.
  FloatRows output = {};       ///< Backwards: the gradient of its output, which becomes that of x.
};

/// The layers of a model, applied to batches of tokens: by the trainer, which keeps what they
/// compute, and by the sampler, which does not. A row's results do not depend on the other rows of
/// its batch.
///
/// Thread-compatible.
class Forward {
 public:
  Forward(const Model& model, ThreadPool& threads)
      : model_(model), threads_(threads), rope_(model) {}

  /// Bytes that the arrays of a pass will take.
  static std::size_t bytes(const Model& model, ThreadPool& threads, const PassShape& shape);

  [[nodiscard]] std::size_t bytes_held() const noexcept { return arena_.used(); }
  /// Gives the arrays back, until the next batch.
  void release() {
    shape_ = {};
    arena_ = {};
  }

  /// Must be called before the layers of a batch; the spans must live as long as it is computed.
  void begin(const TokenBatch& batch, const PassShape& shape);
  /// x = the embeddings of the tokens.
  void embed(const FloatRows& x) const;
  /// Computes a layer from state.x. Keys and values go to the pages. `state.x`, `state.middle` and
  /// `output` may be the same.
  void layer(const LayerPass& pass);
  /// The same for one of `pieces()`. Requires that those before it are computed.
  void layer_piece(const LayerPass& pass, std::size_t piece);

  // Steps that the backward pass takes again, of the first rows of its arguments:
  /// out = norm(x); `inverse`, if any, gets 1 / rms of each row.
  void norm(std::size_t rows,
            const FloatRows& x,
            const Floats& gain,
            const ElementRows& out,
            float* inverse) const;
  void gated(std::size_t rows, const LayerState& state, const ElementRows& out) const;
  [[nodiscard]] std::span<const RowPiece> pieces() const noexcept { return pieces_; }
  [[nodiscard]] const RopeTable& rope() const noexcept { return rope_; }
  [[nodiscard]] ThreadPool& threads() const noexcept { return threads_; }
  [[nodiscard]] const TokenBatch& batch() const noexcept { return batch_; }
  /// Calls f(first, count, thread) for neighbours among so many rows, from all threads.
  template <typename F>
  void for_rows(std::size_t rows, F f) const {
    constexpr std::size_t kRows = 16;
    threads_.run((rows + kRows - 1) / kRows, [&](std::size_t unit, std::size_t thread) {
      const std::size_t first = unit * kRows;
      f(first, std::min(kRows, rows - first), thread);
    });
  }

 private:
  struct Target {
    void* c = nullptr;
    std::size_t stride = 0;
    Output output = Output::store;
    const float* bias = nullptr;
  };
  /// Rows of one sequence, for one unit of attention.
  struct QueryRun {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  void plan(const ActivationPlan& plan, Arena& arena);
  void cut_into_pieces(std::size_t most);
  void layer_rows(const RowPiece& piece, const LayerPass& pass);
  void project(const RowPiece& piece,
               std::size_t layer,
               LoraGroup group,
               const ElementRows& input,
               const ElementRows& low,
               std::span<const Target> targets);
  void rotate_and_store(const RowPiece& piece,
                        std::size_t layer,
                        const LayerState& state,
                        const KvLayout& kv,
                        std::size_t page_layer);
  void attend(const RowPiece& piece,
              const LayerState& state,
              const KvLayout& kv,
              std::size_t page_layer);

  const Model& model_;
  ThreadPool& threads_;
  RopeTable rope_;
  TokenBatch batch_;
  std::vector<RowPiece> pieces_;
  std::vector<QueryRun> query_runs_;  // of one piece
  std::vector<Product> products_;

  PassShape shape_;
  Arena arena_;
  // Of the rows of a piece:
  ElementRows normed_;  // (rows, hidden)
  ElementRows gated_;   // (rows, ffn)
  FloatRows raw_q_;     // (rows, q_size), where they are not kept
  FloatRows raw_k_;     // (rows, kv_size)
  FloatRows raw_v_;
  std::vector<float*> scratch_;  // of each thread
};

}  // namespace tinker::engine
