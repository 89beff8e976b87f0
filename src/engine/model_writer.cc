#include "engine/model_writer.h"

#include <string_view>

#include "base/atomic_file.h"
#include "base/files.h"
#include "tinker/check.h"

namespace tinker::engine {

namespace {

using Dtype = formats::Safetensors::Dtype;

/// As PyTorch calls it.
std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return "bfloat16";
    case Dtype::f16: return "float16";
    default: return "float32";
  }
}

}  // namespace

Result<void> write_model(const std::filesystem::path& folder,
                         const ModelConfig& config,
                         std::span<const formats::Safetensors::Tensor> tensors) {
  TINKER_CHECK(!tensors.empty());
  const auto json = to_json(config, name_of(tensors.front().dtype));
  TINKER_TRY(read_model_config(json));
  const auto path = (folder / "config.json").string();
  TINKER_TRY(base::make_folders_above(path));
  TINKER_TRY(formats::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}}));
  TINKER_TRY(auto file, base::AtomicFile::create(path));
  TINKER_TRY(file.write(json));
  return file.commit();
}

}  // namespace tinker::engine
