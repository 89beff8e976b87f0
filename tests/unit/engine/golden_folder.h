#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engine/adapter_config.h"
#include "engine/peft.h"
#include "engine/trainer.h"
#include "formats/mapped_file.h"
#include "formats/safetensors.h"
#include "unit/engine/goldens.h"

namespace tinker::engine {

// Of logits and logprobs; torch's own f32 is 4e-6 to 7e-6 away from f64.
inline constexpr float kLogitTolerance = 5e-5F;

/// Says, once, what is not there.
inline void leave_out(const std::string& what) {
  static std::set<std::string> said;
  if (said.insert(what).second) std::cout << "left out: there is no " << what << "\n";
}
inline bool has(const std::filesystem::path& path) {
  const bool out = std::filesystem::exists(path);
  if (!out) leave_out(path.string());
  return out;
}

/// Of goldens, in the order of their names.
inline std::vector<std::filesystem::path> folders() {
  std::vector<std::filesystem::path> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(goldens(), none)) {
    if (entry.is_directory()) out.push_back(entry.path());
  }
  std::ranges::sort(out);
  return out;
}

/// Tensors of a file, as floats.
class Tensors {
 public:
  explicit Tensors(const std::filesystem::path& path)
      : path_(path),
        file_(formats::MappedFile::open(path).value()),
        parsed_(formats::Safetensors::parse(file_.bytes()).value()) {}
  [[nodiscard]] const formats::Safetensors& operator*() const { return parsed_; }
  [[nodiscard]] bool contains(const std::string& name) const {
    return parsed_.find(name) != nullptr;
  }
  [[nodiscard]] std::size_t count(const std::string& prefix) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        parsed_.tensors(), [&](const auto& tensor) { return tensor.name.starts_with(prefix); }));
  }
  /// Whether there are some whose names begin so. Says it when not.
  [[nodiscard]] bool has_some(const std::string& prefix) const {
    const bool out = count(prefix) > 0;
    if (!out) leave_out(prefix + "* in " + path_.string());
    return out;
  }
  /// Nothing when it is not there, which fails the test.
  [[nodiscard]] std::vector<float> floats(const std::string& name) const {
    const auto* tensor = parsed_.find(name);
    if (tensor == nullptr || tensor->dtype != formats::Safetensors::Dtype::f32) {
      ADD_FAILURE() << "no tensor " << name << " of F32";
      return {};
    }
    std::vector<float> out(tensor->data.size() / sizeof(float));
    std::memcpy(out.data(), tensor->data.data(), tensor->data.size());
    return out;
  }

 private:
  std::filesystem::path path_;
  formats::MappedFile file_;
  formats::Safetensors parsed_;
};

/// One member of an object, if it is there and not null.
inline std::optional<simdjson::dom::element> member(simdjson::dom::element object,
                                                    std::string_view name) {
  simdjson::dom::element out;
  if (object[name].get(out) != simdjson::SUCCESS || out.is_null()) return std::nullopt;
  return out;
}

/// One folder, on one path of kernels.
struct Golden {
  Golden(const std::filesystem::path& from, CpuPath path)
      : folder(from),
        threads(2),
        model(Model::load(ModelFiles::open(from / "model").value(),
                          kernels_of(path, Precision::f32),
                          threads)
                  .value()),
        trainer(model, threads, {.micro_batch_tokens = 40}) {}

  /// "lora" or "lora_unembed", which has the head besides and no config of its own. Nothing when it
  /// is not there.
  std::shared_ptr<const Adapter> adapter(const std::string& kind) {
    const bool with_head = kind == "lora_unembed";
    const auto config = folder / "adapter" / "adapter_config.json";
    const auto file = with_head ? folder / "adapter_unembed.safetensors"
                                : folder / "adapter" / "adapter_model.safetensors";
    if (!has(config) || !has(file)) return nullptr;
    auto shape = read_adapter_config(formats::MappedFile::open(config).value().bytes()).value();
    shape.train_unembed = shape.train_unembed || with_head;
    const auto layout = LoraLayout::create(model->config(), shape).value();
    const Tensors tensors(file);
    return Adapter::with_values(
        *model, layout, read_peft_tensors(*tensors, *layout).value(), threads);
  }

  std::filesystem::path folder;
  ThreadPool threads;
  std::shared_ptr<const Model> model;
  Trainer trainer;
};

/// NaN when there is one.
inline float largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float out = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return difference;
    out = std::max(out, difference);
  }
  return out;
}

/// Compares what an object of the goldens has under a name, if it has.
inline void expect_near(simdjson::dom::element expected,
                        std::string_view name,
                        std::span<const float> ours,
                        float tolerance) {
  if (const auto theirs = member(expected, name)) {
    EXPECT_LE(largest_difference(ours, numbers<float>(*theirs)), tolerance) << name;
  }
}

/// Runs `body` for every folder that has these files, on every path of kernels.
template <typename F>
void for_goldens(std::initializer_list<const char*> files, F body) {
  bool is_any = false;
  for (const auto& folder : folders()) {
    const auto is_there = [&](const char* file) { return has(folder / file); };
    if (!is_there("model") || !std::ranges::all_of(files, is_there)) continue;
    is_any = true;
    for (const auto path : cpu_paths()) {
      SCOPED_TRACE(folder.filename().string() + " on " + std::string(to_string(path)));
      Golden golden(folder, path);
      body(golden);
    }
  }
  if (!is_any) GTEST_SKIP() << "no goldens for this in " << goldens();
}

}  // namespace tinker::engine
