#include "engine/adapter.h"

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "engine/counter_random.h"
#include "tinker/check.h"

namespace tinker::engine {
namespace {

/// Beyond any model's width, and small enough to count parameters with.
constexpr std::size_t kMostRank = std::size_t{1} << 20U;
constexpr std::array kGroupsOfLayer = {
    LoraGroup::qkv, LoraGroup::o, LoraGroup::gate_up, LoraGroup::down};

bool is_trained(const LoraShape& config, LoraGroup group) {
  switch (group) {
    case LoraGroup::qkv:
    case LoraGroup::o: return config.train_attn;
    case LoraGroup::gate_up:
    case LoraGroup::down: return config.train_mlp;
    case LoraGroup::head: break;
  }
  return config.train_unembed;
}

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

}  // namespace

Result<std::shared_ptr<const LoraLayout>> LoraLayout::create(const ModelConfig& model,
                                                             const LoraShape& config) {
  if (config.rank == 0 || config.rank > kMostRank)
    return invalid(base::concat("rank is ", config.rank, "; expected 1 to ", kMostRank));
  if (!std::isfinite(config.alpha) || config.alpha <= 0) {
    return invalid(base::concat("alpha is ", config.alpha, "; expected a positive number"));
  }
  if (!config.train_attn && !config.train_mlp && !config.train_unembed) {
    return invalid(
        "train_attn, train_mlp and train_unembed are all false; expected at least one to be true");
  }
  auto out = std::make_shared<LoraLayout>();
  out->config_ = config;
  out->layers_ = model.layers;
  const auto add = [&](std::string name, MatrixSize size) {
    const std::size_t a = out->parameters_;
    const std::size_t b = a + config.rank * size.in;
    out->parameters_ = b + config.rank * size.out;
    out->modules_.push_back(
        {.name = std::move(name), .in = size.in, .out = size.out, .a = a, .b = b});
  };
  for (std::size_t layer = 0; layer < model.layers; ++layer) {
    for (const auto group : kGroupsOfLayer) {
      if (!is_trained(config, group)) continue;
      const auto members = members_of(group);
      for (std::size_t i = 0; i < members.count; ++i) {
        const auto projection = kAllProjections[members.first + i];
        add("model.layers." + std::to_string(layer) + "." + std::string(name_of(projection)),
            size_of(model, projection));
      }
    }
    if (layer == 0) out->modules_per_layer_ = out->modules_.size();
  }
  if (config.train_unembed) add("lm_head", {.out = model.vocab_size, .in = model.hidden_size});
  return std::shared_ptr<const LoraLayout>(std::move(out));
}

bool LoraLayout::has(LoraGroup group) const noexcept {
  return is_trained(config_, group);
}

bool LoraLayout::fits(const ModelConfig& model) const {
  const auto expected = create(model, config_);
  return expected.ok() && (*expected)->modules_ == modules_;
}

const LoraModule& LoraLayout::module(std::size_t layer, LoraGroup group, std::size_t member) const {
  TINKER_CHECK(has(group));
  if (group == LoraGroup::head) return modules_.back();
  std::size_t index = layer * modules_per_layer_ + members_of(group).first + member;
  if (!config_.train_attn) index -= members_of(LoraGroup::gate_up).first;
  return modules_[index];
}

namespace {

PackedGroup pack(const Kernels& kernels,
                 const LoraLayout& layout,
                 std::span<const float> values,
                 std::size_t layer,
                 LoraGroup group) {
  const std::size_t rank = layout.config().rank;
  const std::size_t padded = round_up(rank, kernels.step);
  const std::size_t count = members_of(group).count;
  PackedGroup out;
  out.a = PackedMatrix(kernels, count * padded, layout.module(layer, group, 0).in);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& module = layout.module(layer, group, i);
    out.b_transposed[i] = PackedMatrix(kernels, padded, module.out);
    std::vector<float> scaled(module.out);
    PackedMatrix a(kernels, padded, module.in);
    for (std::size_t r = 0; r < rank; ++r) {
      const auto row = values.subspan(module.a + r * module.in, module.in);
      out.a.set_row(i * padded + r, row);
      a.set_row(r, row);
      for (std::size_t j = 0; j < module.out; ++j) {
        scaled[j] = layout.scale() * values[module.b + r * module.out + j];
      }
      out.b_transposed[i].set_row(r, scaled);
    }
    const auto transposed = [&](const PackedMatrix& matrix) {
      PackedMatrix turned(kernels, matrix.k(), matrix.n());
      for (std::size_t panel = 0; panel < turned.panels(); ++panel)
        turned.set_transposed_panel(kernels, panel, matrix);
      return turned;
    };
    out.b[i] = transposed(out.b_transposed[i]);
    out.a_transposed[i] = transposed(a);
  }
  return out;
}

}  // namespace

std::shared_ptr<const Adapter> Adapter::create(const Model& model,
                                               std::shared_ptr<const LoraLayout> layout,
                                               std::uint64_t seed,
                                               ThreadPool& threads) {
  Floats values(layout->parameters());
  const auto& modules = layout->modules();
  threads.run(modules.size(), [&](std::size_t index, std::size_t /*thread*/) {
    const auto& module = modules[index];
    const float bound = 1.0F / std::sqrt(static_cast<float>(module.in));
    for (std::size_t i = 0; i < layout->config().rank * module.in; ++i) {
      values[module.a + i] = bound * (2.0F * uniform(seed, index, i) - 1.0F);
    }
  });
  return with_values(model, std::move(layout), std::move(values), threads);
}

std::shared_ptr<const Adapter> Adapter::with_values(const Model& model,
                                                    std::shared_ptr<const LoraLayout> layout,
                                                    Floats values,
                                                    ThreadPool& threads) {
  TINKER_CHECK(values.size() == layout->parameters());
  const std::shared_ptr<Adapter> out(new Adapter());
  out->kernels_ = &model.kernels();
  out->layout_ = std::move(layout);
  out->values_ = std::move(values);
  out->padded_rank_ = round_up(out->layout_->config().rank, model.kernels().step);
  out->groups_.resize(model.config().layers * kLayerGroups + 1);
  threads.run(out->groups_.size(), [&](std::size_t index, std::size_t /*thread*/) {
    const bool is_head = index + 1 == out->groups_.size();
    const auto group = is_head ? LoraGroup::head : kGroupsOfLayer[index % kLayerGroups];
    if (!out->layout_->has(group)) return;
    out->groups_[index] =
        pack(model.kernels(), *out->layout_, out->values(), index / kLayerGroups, group);
  });
  return out;
}

std::size_t Adapter::bytes(const Kernels& kernels, const LoraLayout& layout) {
  const std::size_t rank = round_up(layout.config().rank, kernels.step);
  std::size_t out = layout.parameters() * sizeof(float);
  for (const auto& module : layout.modules()) {
    for (const std::size_t side : {module.in, module.out}) {
      out += PackedMatrix::bytes(kernels, rank, side) + PackedMatrix::bytes(kernels, side, rank);
    }
  }
  return out;
}

bool Adapter::fits(const Model& model) const {
  return kernels_ == &model.kernels() && layout_->fits(model.config());
}

const PackedGroup* Adapter::find(std::size_t layer, LoraGroup group) const {
  const std::size_t index = group == LoraGroup::head
                                ? groups_.size() - 1
                                : layer * kLayerGroups + static_cast<std::size_t>(group);
  return groups_[index] ? &*groups_[index] : nullptr;
}

}  // namespace tinker::engine
