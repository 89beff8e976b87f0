#include "engine/adapter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "engine/counter_random.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/small_model.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::adapter_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::tinker::testing::IsError;
using LayoutPointer = std::shared_ptr<const LoraLayout>;

constexpr LoraShape kAttention = {.rank = 1, .train_mlp = false, .train_unembed = false};
constexpr LoraShape kMlp = {.rank = 1, .train_attn = false, .train_unembed = false};
constexpr LoraShape kUnembed = {.rank = 1, .train_attn = false, .train_mlp = false};

LayoutPointer layout_of(const LoraShape& config, const ModelConfig& model = small_config()) {
  return LoraLayout::create(model, config).value();
}

// ---- layout

TEST(LoraLayout, HasAsManyParametersAsTheCookbookCounts) {
  const ModelConfig qwen3_8b = {.vocab_size = 151'936,
                                .hidden_size = 4096,
                                .ffn_size = 12'288,
                                .layers = 36,
                                .heads = 32,
                                .kv_heads = 8,
                                .head_dim = 128};
  const ModelConfig llama_3_2_1b = {.vocab_size = 128'256,
                                    .hidden_size = 2048,
                                    .ffn_size = 8192,
                                    .layers = 16,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .head_dim = 64,
                                    .tied_head = true};

  EXPECT_EQ(layout_of(kAttention, qwen3_8b)->parameters(), 958'464);
  EXPECT_EQ(layout_of(kMlp, qwen3_8b)->parameters(), 1'769'472);
  EXPECT_EQ(layout_of(kUnembed, qwen3_8b)->parameters(), 156'032);
  EXPECT_EQ(layout_of({.rank = 32}, qwen3_8b)->parameters(), 32 * (958'464 + 1'769'472 + 156'032));
  EXPECT_EQ(layout_of(kUnembed, llama_3_2_1b)->parameters(), 130'304);
}

TEST(LoraLayout, NamesItsModules) {
  auto model = small_config();
  model.layers = 1;

  const auto layout = layout_of({.rank = 1}, model);

  const auto named = [](const char* name) { return Field(&LoraModule::name, name); };
  EXPECT_THAT(layout->modules(),
              ElementsAre(named("model.layers.0.self_attn.q_proj"),
                          named("model.layers.0.self_attn.k_proj"),
                          named("model.layers.0.self_attn.v_proj"),
                          named("model.layers.0.self_attn.o_proj"),
                          named("model.layers.0.mlp.gate_proj"),
                          named("model.layers.0.mlp.up_proj"),
                          named("model.layers.0.mlp.down_proj"),
                          named("lm_head")));
}

TEST(LoraLayout, PutsOneModuleBehindTheOther) {
  const auto layout = layout_of({.rank = 3});
  std::size_t end = 0;

  for (const auto& module : layout->modules()) {
    EXPECT_EQ(module.a, end) << module.name;
    EXPECT_EQ(module.b, module.a + 3 * module.in);
    end = module.b + 3 * module.out;
  }

  EXPECT_EQ(layout->parameters(), end);
}

TEST(LoraLayout, FindsAModuleByItsPlace) {
  const LoraShape mlp_and_head = {.rank = 1, .train_attn = false};

  EXPECT_EQ(layout_of({.rank = 1})->module(1, LoraGroup::gate_up, 1).name,
            "model.layers.1.mlp.up_proj");
  EXPECT_EQ(layout_of(kAttention)->module(1, LoraGroup::o, 0).name,
            "model.layers.1.self_attn.o_proj");
  EXPECT_EQ(layout_of(mlp_and_head)->module(1, LoraGroup::down, 0).name,
            "model.layers.1.mlp.down_proj");
  EXPECT_EQ(layout_of(mlp_and_head)->module(0, LoraGroup::head, 0).name, "lm_head");
}

TEST(LoraLayout, HasTheSizesOfTheProjections) {
  const auto layout = layout_of({.rank = 1});
  const auto expect_size = [&](LoraGroup group, std::size_t member, MatrixSize size) {
    const auto& module = layout->module(1, group, member);
    EXPECT_EQ(module.in, size.in) << module.name;
    EXPECT_EQ(module.out, size.out) << module.name;
  };

  expect_size(LoraGroup::qkv, 0, {.out = 24, .in = 12});
  expect_size(LoraGroup::qkv, 1, {.out = 12, .in = 12});
  expect_size(LoraGroup::qkv, 2, {.out = 12, .in = 12});
  expect_size(LoraGroup::o, 0, {.out = 12, .in = 24});
  expect_size(LoraGroup::gate_up, 0, {.out = 14, .in = 12});
  expect_size(LoraGroup::gate_up, 1, {.out = 14, .in = 12});
  expect_size(LoraGroup::down, 0, {.out = 12, .in = 14});
  expect_size(LoraGroup::head, 0, {.out = 11, .in = 12});
}

TEST(LoraLayout, ScalesByAlphaOverRank) {
  EXPECT_EQ(layout_of({.rank = 8})->scale(), 4);
  EXPECT_EQ(layout_of({.rank = 8, .alpha = 2})->scale(), 0.25F);
}

TEST(LoraLayout, RefusesARankThatTheModelCannotHave) {
  EXPECT_THAT(LoraLayout::create(small_config(), {.rank = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("rank is 0; expected 1 to 1048576")));
  EXPECT_THAT(
      LoraLayout::create(small_config(), {.rank = 1'048'577}),
      IsError(ErrorCode::invalid_argument, HasSubstr("rank is 1048577; expected 1 to 1048576")));
}

TEST(LoraLayout, RefusesAnAlphaThatIsNotPositive) {
  const std::vector<std::pair<float, std::string>> refused = {
      {0.0F, "0"},
      {-1e-9F, "-1e-09"},
      {std::numeric_limits<float>::infinity(), "inf"},
      {std::numeric_limits<float>::quiet_NaN(), "nan"},
  };
  for (const auto& [alpha, text] : refused) {
    EXPECT_THAT(LoraLayout::create(small_config(), {.rank = 1, .alpha = alpha}),
                IsError(ErrorCode::invalid_argument,
                        HasSubstr("alpha is " + text + "; expected a positive number")));
  }
}

TEST(LoraLayout, RefusesToTrainNothing) {
  const LoraShape nothing = {
      .rank = 1, .train_attn = false, .train_mlp = false, .train_unembed = false};

  EXPECT_THAT(LoraLayout::create(small_config(), nothing),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("train_attn, train_mlp and train_unembed are all false")));
}

// ---- new adapters

std::shared_ptr<const Adapter> new_adapter(std::uint64_t seed, std::size_t thread_count = 1) {
  ThreadPool threads(thread_count);
  return Adapter::create(*small_model(threads), layout_of({.rank = 3}), seed, threads);
}

TEST(Adapter, DoesNothingAtFirst) {
  const auto adapter = new_adapter(1);
  for (const auto& module : adapter->layout().modules())
    EXPECT_THAT(adapter->values().subspan(module.b, 3 * module.out), Each(0)) << module.name;
}

TEST(Adapter, BeginsWithinTheBoundsOfItsInputs) {
  const auto adapter = new_adapter(1);
  for (const auto& module : adapter->layout().modules()) {
    const float bound = 1 / std::sqrt(static_cast<float>(module.in));
    const auto a = adapter->values().subspan(module.a, 3 * module.in);

    EXPECT_THAT(a, Each(AllOf(Ge(-bound), Lt(bound)))) << module.name;
    EXPECT_LT(*std::ranges::min_element(a), -0.7F * bound);
    EXPECT_GT(*std::ranges::max_element(a), 0.7F * bound);
  }
}

TEST(Adapter, BeginsWithTheSameNumbersOnEveryMachine) {
  const auto adapter = new_adapter(1);
  const auto& head = adapter->layout().modules().back();

  EXPECT_THAT(adapter->values().first(3),
              ElementsAre(0x1.c99f5ep-4F, -0x1.6b2ef8p-5F, -0x1.c97c7ap-3F));
  EXPECT_THAT(adapter->values().subspan(head.a, 3),
              ElementsAre(-0x1.95f27cp-3F, -0x1.59aecep-7F, 0x1.d4767p-4F));
}

TEST(Adapter, BeginsWithTheNumbersOfItsSeed) {
  const auto adapter = new_adapter(1);

  EXPECT_THAT(new_adapter(1, 3)->values(), ElementsAreArray(adapter->values()));
  EXPECT_THAT(new_adapter(2)->values(), Not(ElementsAreArray(adapter->values())));
}

// ---- packed

/// An adapter whose parameters are all different.
struct Packed {
  explicit Packed(Precision precision, const LoraShape& config = {.rank = 3, .alpha = 6})
      : threads(1), model(small_model(threads, precision)) {
    const auto layout = layout_of(config);
    Floats values(layout->parameters());
    // Whole numbers, which bf16 has up to 256.
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(random_bits(1, 0, i) % 100);
    adapter = Adapter::with_values(*model, layout, std::move(values), threads);
  }

  ThreadPool threads;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Adapter> adapter;
};

std::vector<float> row_of(const PackedMatrix& matrix, std::size_t row) {
  std::vector<float> out(matrix.k());
  matrix.read_row(row, out);
  return out;
}

/// `values`, and zeros.
std::vector<float> filled(std::vector<float> values, std::size_t size) {
  values.resize(size);
  return values;
}

TEST(Adapter, PacksTheFirstFactorsOfAGroupTogether) {
  for (const auto precision : {Precision::f32, Precision::bf16}) {
    const Packed packed(precision);
    const auto& adapter = *packed.adapter;
    const auto* group = adapter.find(1, LoraGroup::qkv);

    for (std::size_t member = 0; member < 3; ++member) {
      const auto& module = adapter.layout().module(1, LoraGroup::qkv, member);
      for (std::size_t r = 0; r < 3; ++r) {
        EXPECT_THAT(
            row_of(group->a, member * adapter.padded_rank() + r),
            ElementsAreArray(adapter.values().subspan(module.a + r * module.in, module.in)));
      }
    }
  }
}

TEST(Adapter, PacksTheSecondFactorScaled) {
  for (const auto precision : {Precision::f32, Precision::bf16}) {
    const Packed packed(precision);
    const auto& adapter = *packed.adapter;
    const auto& module = adapter.layout().module(0, LoraGroup::head, 0);
    const auto* group = adapter.find(0, LoraGroup::head);

    for (std::size_t i = 0; i < module.out; ++i) {
      std::vector<float> expected;
      for (std::size_t r = 0; r < 3; ++r)
        expected.push_back(2 * adapter.values()[module.b + r * module.out + i]);

      EXPECT_EQ(row_of(group->b[0], i), filled(expected, adapter.padded_rank()));
    }
  }
}

TEST(Adapter, PacksBothFactorsTransposed) {
  for (const auto precision : {Precision::f32, Precision::bf16}) {
    const Packed packed(precision);
    const auto* group = packed.adapter->find(1, LoraGroup::gate_up);
    const std::size_t rank = packed.adapter->padded_rank();
    for (std::size_t member = 0; member < 2; ++member) {
      for (std::size_t r = 0; r < rank; ++r) {
        for (std::size_t i = 0; i < 12; ++i) {
          ASSERT_EQ(row_of(group->a_transposed[member], i)[r],
                    row_of(group->a, member * rank + r)[i]);
        }
        for (std::size_t i = 0; i < 14; ++i)
          ASSERT_EQ(row_of(group->b_transposed[member], r)[i], row_of(group->b[member], i)[r]);
      }
    }
  }
}

// More columns than are packed at a time, from more than one thread.
TEST(Adapter, PacksWideFactors) {
  for (const auto precision : {Precision::f32, Precision::bf16}) {
    ThreadPool threads(3);
    auto config = small_config();
    config.vocab_size = 2500;
    const auto model = random_model(config, kernels_of(cpu_paths().back(), precision), threads);
    const auto layout = LoraLayout::create(config, {.rank = 3, .alpha = 6}).value();
    Floats values(layout->parameters());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(random_bits(1, 0, i) % 100);
    const auto adapter = Adapter::with_values(*model, layout, std::move(values), threads);
    const auto& module = layout->module(0, LoraGroup::head, 0);
    const auto* group = adapter->find(0, LoraGroup::head);

    for (std::size_t r = 0; r < 3; ++r) {
      const auto row = row_of(group->b_transposed[0], r);
      for (std::size_t i = 0; i < module.out; ++i) {
        ASSERT_EQ(row[i], 2 * adapter->values()[module.b + r * module.out + i]);
        ASSERT_EQ(row_of(group->b[0], i)[r], row[i]);
      }
    }
  }
}

TEST(Adapter, FillsItsRankUpToPairs) {
  EXPECT_EQ(Packed(Precision::f32).adapter->padded_rank(), 3);
  EXPECT_EQ(Packed(Precision::bf16).adapter->padded_rank(), 4);
}

TEST(Adapter, HasTheGroupsThatAreTrained) {
  const Packed packed(Precision::f32, kMlp);

  EXPECT_EQ(packed.adapter->find(1, LoraGroup::qkv), nullptr);
  EXPECT_EQ(packed.adapter->find(1, LoraGroup::o), nullptr);
  EXPECT_NE(packed.adapter->find(1, LoraGroup::gate_up), nullptr);
  EXPECT_NE(packed.adapter->find(1, LoraGroup::down), nullptr);
  EXPECT_EQ(packed.adapter->find(1, LoraGroup::head), nullptr);
}

TEST(Adapter, TakesTheMemoryThatWasEstimatedAndSoDoesTheModel) {
  const Packed packed(Precision::bf16, {.rank = 16});
  std::size_t bytes = packed.adapter->values().size_bytes();
  const auto add = [&](const PackedGroup* group) {
    bytes += group->a.bytes();
    for (const auto& matrices : {&group->b, &group->a_transposed, &group->b_transposed}) {
      for (const auto& matrix : *matrices) bytes += matrix.bytes();
    }
  };
  for (const std::size_t layer : {0U, 1U}) {
    for (const auto group : {LoraGroup::qkv, LoraGroup::o, LoraGroup::gate_up, LoraGroup::down})
      add(packed.adapter->find(layer, group));
  }
  add(packed.adapter->find(0, LoraGroup::head));

  const auto& model = *packed.model;
  EXPECT_EQ(Model::bytes(model.config(), model.kernels()), model.bytes());
  EXPECT_EQ(Adapter::bytes(packed.model->kernels(), packed.adapter->layout()), bytes);
}

}  // namespace
}  // namespace tinker::engine::adapter_test
