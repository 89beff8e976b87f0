#include "engine/adapter.h"

#include <algorithm>
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

}  // namespace

Result<std::shared_ptr<const LoraLayout>> LoraLayout::create(const ModelConfig& model,
                                                             const LoraShape& config) {
  if (config.rank == 0 || config.rank > kMostRank)
    return Error::invalid_argument(
        base::concat("rank is ", config.rank, "; expected 1 to ", kMostRank));
  if (!std::isfinite(config.alpha) || config.alpha <= 0) {
    return Error::invalid_argument(
        base::concat("alpha is ", config.alpha, "; expected a positive number"));
  }
  if (!config.train_attn && !config.train_mlp && !config.train_unembed) {
    return Error::invalid_argument(
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

/// Columns of a factor that are packed together: all rows of them stay in the cache.
constexpr std::size_t kColumns = 1024;
/// Parameters that one step packs, at least: some milliseconds.
constexpr std::size_t kParametersOfStep = std::size_t{1} << 20U;
/// Modules whose parameters one step draws.
constexpr std::size_t kModulesOfStep = 16;

/// One factor on its way into the matrices of a group. (rank, columns)
struct FactorToPack {
  std::span<const float> values = {};
  std::size_t columns = 0;
  float scale = 1;
  PackedMatrix* turned = nullptr;  ///< (columns, padded rank)
  PackedMatrix* rows = nullptr;    ///< (padded rank, columns); where it goes, if it is kept
  PackedMatrix* joined = nullptr;  ///< Where all rows of a group's factors go, if they do,
  std::size_t first_joined = 0;    ///< and which of those are its own.
  PackedMatrix packed = {};        ///< What becomes `rows`.
};

/// Those of a group, whose matrix of the first factors is there.
void add_factors(const LoraLayout& layout,
                 std::span<const float> values,
                 std::size_t layer,
                 LoraGroup group,
                 PackedGroup& out,
                 std::vector<FactorToPack>& factors) {
  const std::size_t rank = layout.config().rank;
  const std::size_t count = members_of(group).count;
  const std::size_t padded_rank = out.a.n() / count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& module = layout.module(layer, group, i);
    factors.push_back({.values = values.subspan(module.a, rank * module.in),
                       .columns = module.in,
                       .turned = &out.a_transposed[i],
                       .joined = &out.a,
                       .first_joined = i * padded_rank});
    factors.push_back({.values = values.subspan(module.b, rank * module.out),
                       .columns = module.out,
                       .scale = layout.scale(),
                       .turned = &out.b[i],
                       .rows = &out.b_transposed[i]});
  }
}

void pack_columns(const FactorToPack& factor, PackedMatrix& rows, std::size_t first) {
  std::array<float, kColumns> scaled;  // NOLINT(cppcoreguidelines-pro-type-member-init): below
  const std::size_t count = std::min(kColumns, factor.columns - first);
  for (std::size_t r = 0; r < factor.values.size() / factor.columns; ++r) {
    const auto values = factor.values.subspan(r * factor.columns + first, count);
    for (std::size_t i = 0; i < count; ++i) scaled[i] = factor.scale * values[i];
    rows.set_columns(r, first, std::span(scaled).first(count));
    if (factor.joined != nullptr)
      factor.joined->set_columns(factor.first_joined + r, first, std::span(scaled).first(count));
  }
}

/// The matrices of these factors, which must have room for `joined` already.
void pack(const Kernels& kernels,
          std::size_t padded_rank,
          std::span<FactorToPack> factors,
          ThreadPool& threads) {
  struct Unit {
    FactorToPack* factor = nullptr;
    std::size_t index = 0;
  };
  std::vector<Unit> blocks;
  std::vector<Unit> panels;
  for (auto& factor : factors) {
    for (std::size_t first = 0; first < factor.columns; first += kColumns)
      blocks.push_back({.factor = &factor, .index = first});
    for (std::size_t first = 0; first < factor.columns; first += kPanelColumns)
      panels.push_back({.factor = &factor, .index = first / kPanelColumns});
  }
  threads.run(factors.size(), [&](std::size_t i, std::size_t /*thread*/) {
    auto& factor = factors[i];
    factor.packed = PackedMatrix(kernels, padded_rank, factor.columns);
    *factor.turned = PackedMatrix(kernels, factor.columns, padded_rank);
  });
  threads.run(blocks.size(), [&](std::size_t i, std::size_t /*thread*/) {
    pack_columns(*blocks[i].factor, blocks[i].factor->packed, blocks[i].index);
  });
  threads.for_each(panels.size(), [&](std::size_t i) {
    const auto& factor = *panels[i].factor;
    factor.turned->set_transposed_panel(kernels, panels[i].index, factor.packed);
  });
  for (auto& factor : factors) {
    if (factor.rows != nullptr) *factor.rows = std::move(factor.packed);
  }
}

}  // namespace

std::shared_ptr<const Adapter> Adapter::create(const Model& model,
                                               std::shared_ptr<const LoraLayout> layout,
                                               std::uint64_t seed,
                                               ThreadPool& threads) {
  return begin_create(model, std::move(layout), seed, threads).run().value();
}

std::shared_ptr<const Adapter> Adapter::with_values(const Model& model,
                                                    std::shared_ptr<const LoraLayout> layout,
                                                    Floats values,
                                                    ThreadPool& threads) {
  return begin_with_values(model, std::move(layout), std::move(values), threads).run().value();
}

Resumable<std::shared_ptr<const Adapter>> Adapter::begin_create(
    const Model& model,
    std::shared_ptr<const LoraLayout> layout,
    std::uint64_t seed,
    ThreadPool& threads) {
  Floats values(layout->parameters(), Zeroed::on_use);
  const auto& modules = layout->modules();
  for (std::size_t first = 0; first < modules.size(); first += kModulesOfStep) {
    const std::size_t count = std::min(kModulesOfStep, modules.size() - first);
    threads.run(count, [&](std::size_t unit, std::size_t /*thread*/) {
      const std::size_t index = first + unit;
      const auto& module = modules[index];
      const float bound = 1.0F / std::sqrt(static_cast<float>(module.in));
      for (std::size_t i = 0; i < layout->config().rank * module.in; ++i) {
        values[module.a + i] = bound * (2.0F * uniform(seed, index, i) - 1.0F);
      }
    });
    co_yield Cut::between;
  }
  auto packing = begin_with_values(model, std::move(layout), std::move(values), threads);
  while (packing.step()) co_yield Cut::between;
  co_return packing.take();
}

Resumable<std::shared_ptr<const Adapter>> Adapter::begin_with_values(
    const Model& model,
    std::shared_ptr<const LoraLayout> layout,
    Floats values,
    ThreadPool& threads) {
  TINKER_CHECK(values.size() == layout->parameters());
  const auto& kernels = model.kernels();
  const std::shared_ptr<Adapter> out(new Adapter());
  out->kernels_ = &kernels;
  out->layout_ = std::move(layout);
  out->values_ = std::move(values);
  out->padded_rank_ = round_up(out->layout_->config().rank, kernels.step);
  out->groups_.resize(model.config().layers * kLayerGroups + 1);
  std::vector<FactorToPack> factors;
  std::size_t parameters = 0;
  for (std::size_t index = 0; index < out->groups_.size(); ++index) {
    const bool is_head = index + 1 == out->groups_.size();
    const auto group = is_head ? LoraGroup::head : kGroupsOfLayer[index % kLayerGroups];
    if (out->layout_->has(group)) {
      const std::size_t layer = index / kLayerGroups;
      auto& packed = out->groups_[index].emplace();
      packed.a = PackedMatrix(kernels,
                              members_of(group).count * out->padded_rank_,
                              out->layout_->module(layer, group, 0).in);
      const std::size_t first = factors.size();
      add_factors(*out->layout_, out->values(), layer, group, packed, factors);
      for (std::size_t i = first; i < factors.size(); ++i) parameters += factors[i].values.size();
    }
    if (parameters < kParametersOfStep && !is_head) continue;
    pack(kernels, out->padded_rank_, factors, threads);
    factors.clear();
    parameters = 0;
    co_yield Cut::between;
  }
  co_return std::shared_ptr<const Adapter>(out);
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
