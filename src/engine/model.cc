#include "engine/model.h"

#include <cmath>
#include <numbers>
#include <string>

namespace tinker::engine {

std::string_view name_of(Projection projection) {
  static constexpr std::array<std::string_view, kProjections> kNames = {"self_attn.q_proj",
                                                                        "self_attn.k_proj",
                                                                        "self_attn.v_proj",
                                                                        "self_attn.o_proj",
                                                                        "mlp.gate_proj",
                                                                        "mlp.up_proj",
                                                                        "mlp.down_proj"};
  return kNames[static_cast<std::size_t>(projection)];
}

MatrixSize size_of(const ModelConfig& config, Projection projection) {
  switch (projection) {
    case Projection::q: return {.out = config.q_size(), .in = config.hidden_size};
    case Projection::k:
    case Projection::v: return {.out = config.kv_size(), .in = config.hidden_size};
    case Projection::o: return {.out = config.hidden_size, .in = config.q_size()};
    case Projection::gate:
    case Projection::up: return {.out = config.ffn_size, .in = config.hidden_size};
    case Projection::down: break;
  }
  return {.out = config.hidden_size, .in = config.ffn_size};
}

namespace {

/// The speed of each pair, as transformers computes it.
std::vector<float> frequencies_of(const ModelConfig& config) {
  std::vector<float> out;
  for (std::size_t i = 0; i < config.head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    float frequency = 1.0F / std::pow(static_cast<float>(config.rope_theta), exponent);
    if (!config.rope_factors.empty()) frequency /= config.rope_factors[i];
    if (config.rope_scaling) {
      const auto& scaling = *config.rope_scaling;
      const auto original = static_cast<double>(scaling.original_context);
      const double wavelength = 2.0 * std::numbers::pi / static_cast<double>(frequency);
      const double low = original / scaling.low_freq_factor;
      const double high = original / scaling.high_freq_factor;
      const auto slow = static_cast<float>(static_cast<double>(frequency) / scaling.factor);
      if (wavelength > low) {
        frequency = slow;
      } else if (wavelength >= high) {
        const double smooth = (original / wavelength - scaling.low_freq_factor) /
                              (scaling.high_freq_factor - scaling.low_freq_factor);
        frequency = static_cast<float>((1.0 - smooth) * static_cast<double>(slow) +
                                       smooth * static_cast<double>(frequency));
      }
    }
    out.push_back(frequency);
  }
  return out;
}

}  // namespace

/// Reads tensors by name and packs them.
class Model::Loader {
 public:
  Loader(const ModelFiles& files, const Kernels& kernels, ThreadPool& threads)
      : files_(files), kernels_(kernels), threads_(threads) {}

  Result<PackedMatrix> matrix(const std::string& name, MatrixSize size) {
    TINKER_TRY(const auto tensor, files_.tensor(name, size.out, size.in));
    PackedMatrix out(kernels_, size.out, size.in);
    // Rows of one panel share cache lines, so a thread takes panels.
    threads_.run(out.panels(), [&](std::size_t index, std::size_t /*thread*/) {
      std::vector<float> row(size.in);
      const auto panel = out.panel(index);
      for (std::size_t i = panel.first; i < panel.first + panel.columns; ++i) {
        tensor.read_row(i, row);
        out.set_row(i, row);
      }
    });
    return out;
  }

  Result<Floats> vector(const std::string& name, std::size_t size) {
    TINKER_TRY(const auto tensor, files_.tensor(name, 1, size));
    Floats out(size);
    tensor.read_row(0, out.span());
    return out;
  }

  Result<Layer> layer(const ModelConfig& config, std::size_t index) {
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    Layer out;
    for (const auto projection : kAllProjections) {
      const auto at = static_cast<std::size_t>(projection);
      const auto size = size_of(config, projection);
      const std::string name = prefix + std::string(name_of(projection));
      TINKER_TRY(out.matrices[at], matrix(name + ".weight", size));
      if (config.has_qkv_bias() && at < out.biases.size()) {
        TINKER_TRY(out.biases[at], vector(name + ".bias", size.out));
      }
    }
    TINKER_TRY(out.input_norm, vector(prefix + "input_layernorm.weight", config.hidden_size));
    TINKER_TRY(out.post_attention_norm,
               vector(prefix + "post_attention_layernorm.weight", config.hidden_size));
    if (config.has_qk_norm()) {
      TINKER_TRY(out.q_norm, vector(prefix + "self_attn.q_norm.weight", config.head_dim));
      TINKER_TRY(out.k_norm, vector(prefix + "self_attn.k_norm.weight", config.head_dim));
    }
    return out;
  }

 private:
  const ModelFiles& files_;
  const Kernels& kernels_;
  ThreadPool& threads_;
};

Result<std::shared_ptr<const Model>> Model::load(const ModelFiles& files,
                                                 const Kernels& kernels,
                                                 ThreadPool& threads) {
  const std::shared_ptr<Model> out(new Model());
  const auto& config = files.config();
  out->config_ = config;
  out->kernels_ = &kernels;
  out->frequencies_ = frequencies_of(config);
  Loader loader(files, kernels, threads);
  const MatrixSize table = {.out = config.vocab_size, .in = config.hidden_size};
  TINKER_TRY(out->embedding_, loader.matrix("model.embed_tokens.weight", table));
  for (std::size_t i = 0; i < config.layers; ++i) {
    TINKER_TRY(auto layer, loader.layer(config, i));
    out->layers_.push_back(std::move(layer));
  }
  TINKER_TRY(out->final_norm_, loader.vector("model.norm.weight", config.hidden_size));
  if (config.tied_head) {
    out->head_ = std::move(out->embedding_);
    out->embedding_ = {};
  } else {
    TINKER_TRY(out->head_, loader.matrix("lm_head.weight", table));
  }
  return std::shared_ptr<const Model>(out);
}

void Model::embed(std::int32_t token, std::span<float> out) const {
  (config_.tied_head ? head_ : embedding_).read_row(static_cast<std::size_t>(token), out);
}

std::size_t Model::bytes() const noexcept {
  std::size_t out = embedding_.bytes() + head_.bytes();
  for (const auto& layer : layers_) {
    for (const auto& matrix : layer.matrices) out += matrix.bytes();
  }
  return out;
}

std::size_t Model::bytes(const ModelConfig& config, const Kernels& kernels) {
  const auto packed = [&](const MatrixSize& size) {
    return PackedMatrix::bytes(kernels, size.out, size.in);
  };
  std::size_t layer = 0;
  for (const auto projection : kAllProjections) layer += packed(size_of(config, projection));
  const std::size_t table = packed({.out = config.vocab_size, .in = config.hidden_size});
  return config.layers * layer + (config.tied_head ? 1 : 2) * table;
}

void RopeTable::reserve(std::size_t positions) {
  const std::size_t width = frequencies_.size();
  // All three or, if there is no memory, none.
  for (auto* const values : {&cos_, &sin_, &minus_sin_}) make_room(*values, positions * width);
  for (std::size_t position = cos_.size() / width; position < positions; ++position) {
    for (const float frequency : frequencies_) {
      const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      cos_.push_back(static_cast<float>(std::cos(angle)));
      sin_.push_back(static_cast<float>(std::sin(angle)));
      minus_sin_.push_back(-sin_.back());
    }
  }
}

}  // namespace tinker::engine
