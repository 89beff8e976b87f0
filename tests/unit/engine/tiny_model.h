#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/adapter.h"
#include "engine/model.h"
#include "engine/random_model.h"
#include "support/temporary_folder.h"
#include "unit/engine/small_config.h"

namespace tinker::engine {

/// How a test computes: which kernels, and in which numbers.
struct Setting {
  ModelConfig::Architecture architecture = ModelConfig::Architecture::llama;
  CpuPath path = CpuPath::scalar;
  Precision precision = Precision::f32;
};

inline std::string name_of(const Setting& setting) {
  return std::string(to_string(setting.architecture)) + "_" + std::string(to_string(setting.path)) +
         (setting.precision == Precision::f32 ? "_f32" : "_bf16");
}

/// Everything that this machine can run.
inline std::vector<Setting> all_settings() {
  using Architecture = ModelConfig::Architecture;
  std::vector<Setting> out;
  for (const auto architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3}) {
    for (const auto path : cpu_paths()) {
      for (const auto precision : {Precision::f32, Precision::bf16}) {
        out.push_back({.architecture = architecture, .path = path, .precision = precision});
      }
    }
  }
  return out;
}

/// More than one block of the vocabulary and of keys, and no size a multiple of a vector.
inline ModelConfig tiny_config(ModelConfig::Architecture architecture) {
  auto config = small_config(architecture);
  config.vocab_size = 1601;
  config.hidden_size = 36;
  config.ffn_size = 50;
  config.head_dim = 10;
  config.context_length = 256;
  config.tied_head = architecture != ModelConfig::Architecture::qwen3;
  return config;
}

/// A random model with these sizes.
inline std::shared_ptr<const Model> random_model(const ModelConfig& config,
                                                 const Kernels& kernels,
                                                 ThreadPool& threads) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(write_random_model(folder.path(), config, 7).ok());
  return Model::load(ModelFiles::open(folder.path()).value(), kernels, threads).value();
}

/// A random model, packed for a setting.
inline std::shared_ptr<const Model> tiny_model(const Setting& setting, ThreadPool& threads) {
  return random_model(
      tiny_config(setting.architecture), kernels_of(setting.path, setting.precision), threads);
}

/// An adapter that matters: its B is not zero.
inline std::shared_ptr<const Adapter> tiny_adapter(const Model& model,
                                                   ThreadPool& threads,
                                                   std::size_t rank = 3) {
  const auto layout = LoraLayout::create(model.config(), {.rank = rank}).value();
  const auto fresh = Adapter::create(model, layout, 5, threads);
  Floats values(layout->parameters());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = fresh->values()[i] + 0.02F * static_cast<float>(i * 37 % 11) - 0.1F;
  }
  return Adapter::with_values(model, layout, std::move(values), threads);
}

/// Tokens that look like nothing.
inline std::vector<std::int32_t> some_tokens(const Model& model,
                                             std::size_t count,
                                             std::uint64_t seed) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(
        static_cast<std::int32_t>((seed * 7919 + i * i * 31 + i * 17) % model.config().vocab_size));
  }
  return out;
}

}  // namespace tinker::engine
