#include "engine/llama2c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "base/half.h"
#include "base/strings.h"
#include "engine/config_checks.h"
#include "engine/model_writer.h"
#include "engine/rope_rows.h"
#include "formats/safetensors.h"

namespace tinker::engine {

namespace {

static_assert(std::endian::native == std::endian::little);

using formats::Safetensors;
using Header = std::array<std::int32_t, 7>;

constexpr std::string_view kHead = "lm_head.weight";
// Layer for layer of the first kind, then of the next one.
constexpr std::array<std::string_view, 12> kKinds = {
    "model.embed_tokens.weight",
    ".input_layernorm.weight",
    ".self_attn.q_proj.weight",
    ".self_attn.k_proj.weight",
    ".self_attn.v_proj.weight",
    ".self_attn.o_proj.weight",
    ".post_attention_layernorm.weight",
    ".mlp.gate_proj.weight",
    ".mlp.down_proj.weight",
    ".mlp.up_proj.weight",
    "model.norm.weight",
    kHead,
};

std::vector<TensorShape> in_order_of_file(const std::vector<TensorShape>& tensors) {
  std::vector<TensorShape> out;
  for (const auto kind : kKinds) {
    std::ranges::copy_if(tensors, std::back_inserter(out), [kind](const TensorShape& tensor) {
      return tensor.name.ends_with(kind);
    });
  }
  return out;
}

Result<ModelConfig> read_header(std::string_view file) {
  Header header = {};
  if (file.size() < sizeof(header)) return refuse("the file is shorter than its header");
  std::memcpy(header.data(), file.data(), sizeof(header));
  const auto [hidden, ffn, layers, heads, kv_heads, vocab, context] = header;
  ModelConfig out = {.rms_eps = 1e-5F, .tied_head = vocab > 0, .eos_ids = {2}, .bos_id = 1};
  // A negative number of tokens says that the head is not the embedding.
  TINKER_TRY(out.vocab_size, checked_size("vocab_size", vocab > 0 ? vocab : -std::int64_t{vocab}));
  TINKER_TRY(out.hidden_size, checked_size("dim", hidden));
  TINKER_TRY(out.ffn_size, checked_size("hidden_dim", ffn));
  TINKER_TRY(out.layers, checked_layers("n_layers", layers));
  TINKER_TRY(out.heads, checked_size("n_heads", heads));
  TINKER_TRY(out.kv_heads, checked_size("n_kv_heads", kv_heads));
  TINKER_TRY(out.context_length, checked_size("seq_len", context));
  if (out.hidden_size % out.heads != 0) {
    return refuse(base::concat("'dim' ", hidden, " is not a multiple of 'n_heads' ", heads));
  }
  out.head_dim = out.hidden_size / out.heads;
  TINKER_TRY(check_heads(out));
  TINKER_TRY(checked_token("eos", out.eos_ids.front(), out));
  return out;
}

/// Cosines and sines for each position, which stand between the weights and the head.
std::size_t table_size(const ModelConfig& config) {
  return config.context_length * config.head_dim * sizeof(float);
}

/// Rows of a q or k projection as Hugging Face has them.
std::string in_halves(std::string_view rows, std::size_t row_size, std::size_t head_dim) {
  std::string out;
  out.reserve(rows.size());
  for (std::size_t row = 0; row * row_size < rows.size(); ++row) {
    out += rows.substr(side_by_side_row(row, head_dim) * row_size, row_size);
  }
  return out;
}

std::string as_bf16(std::string_view floats) {
  std::string out;
  out.reserve(floats.size() / 2);
  for (std::size_t i = 0; i < floats.size(); i += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, floats.data() + i, sizeof value);
    const std::uint16_t bits = base::to_bf16(value);
    out.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
  return out;
}

}  // namespace

Result<Llama2c> Llama2c::parse(std::string_view file) {
  TINKER_TRY(auto config, read_header(file));
  const auto weights = file.substr(sizeof(Header));
  std::uint64_t size = table_size(config);
  for (const auto& tensor : tensors_of(config)) {
    size += tensor.rows * tensor.cols * sizeof(float);
    if (size > weights.size()) break;  // long before it could overflow
  }
  if (weights.size() != size) {
    return refuse(base::concat(
        "its ", weights.size(), " bytes of weights are not those that its header announces"));
  }
  return Llama2c(std::move(config), weights);
}

Result<void> Llama2c::write(const std::filesystem::path& folder, EnginePrecision precision) const {
  TINKER_TRY(check_new_folder(folder));
  const bool is_bf16 = precision == EnginePrecision::bf16;
  std::deque<std::string> made;
  std::vector<Safetensors::Tensor> tensors;
  std::string_view rest = weights_;
  for (const auto& tensor : in_order_of_file(tensors_of(config_))) {
    if (tensor.name == kHead) rest.remove_prefix(table_size(config_));
    const std::size_t row_size = tensor.cols * sizeof(float);
    auto data = rest.substr(0, tensor.rows * row_size);
    rest.remove_prefix(data.size());
    if (tensor.name.ends_with("q_proj.weight") || tensor.name.ends_with("k_proj.weight")) {
      data = made.emplace_back(in_halves(data, row_size, config_.head_dim));
    }
    if (is_bf16) data = made.emplace_back(as_bf16(data));
    tensors.push_back({.name = tensor.name,
                       .dtype = is_bf16 ? Safetensors::Dtype::bf16 : Safetensors::Dtype::f32,
                       .shape = tensor.extents(),
                       .data = data});
  }
  TINKER_TRY(auto files, base::AtomicFolder::create(folder.string()));
  TINKER_TRY(write_model(files.written(), config_, tensors));
  return files.commit();
}

}  // namespace tinker::engine
