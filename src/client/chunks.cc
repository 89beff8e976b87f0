#include "client/chunks.h"

#include <iterator>
#include <utility>
#include <variant>

namespace tinker::client {

namespace {

struct ChunkBytes {
  std::int64_t operator()(const EncodedTextChunk& chunk) const {
    return 4 * std::ssize(chunk.tokens);
  }
  std::int64_t operator()(const ImageChunk& chunk) const { return std::ssize(chunk.data); }
  std::int64_t operator()(const ImageAssetPointerChunk& chunk) const {
    return std::ssize(chunk.location);
  }
  std::int64_t operator()(const DmelChunk& chunk) const { return std::ssize(chunk.dmel); }
};

std::int64_t tensor_bytes(const TensorData& tensor) {
  const std::size_t width = tensor.dtype() == TensorDtype::float32 ? 4 : 8;
  std::size_t bytes = width * tensor.size();
  if (const CsrIndices* indices = tensor.indices()) {
    bytes += 8 * (indices->crow.size() + indices->col.size());
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

std::int64_t estimate_bytes(const Datum& datum) {
  std::int64_t total = 0;
  for (const auto& chunk : datum.model_input.chunks) total += std::visit(ChunkBytes(), chunk);
  for (const auto& [name, tensor] : datum.loss_fn_inputs) total += tensor_bytes(tensor);
  return total;
}

std::vector<Chunk> plan_chunks(std::span<const Datum> data, const ClientConfigResponse& config) {
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::int64_t bytes = estimate_bytes(data[i]);
    const bool is_full = chunks.empty() ||
                         chunks.back().bytes + bytes > config.fwdbwd_max_chunk_bytes_count ||
                         std::cmp_greater_equal(chunks.back().count, config.fwdbwd_max_chunk_len);
    if (is_full) chunks.push_back({.first = i});
    ++chunks.back().count;
    chunks.back().bytes += bytes;
  }
  return chunks;
}

}  // namespace tinker::client
