#include "engine/merged_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/atomic_folder.h"
#include "base/half.h"
#include "engine/model_writer.h"
#include "formats/mapped_file.h"

namespace tinker::engine {
namespace {

using Path = std::filesystem::path;
using Dtype = formats::Safetensors::Dtype;

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
// Numbers that are made and written together.
constexpr std::size_t kBlock = std::size_t{1} << 20U;

constexpr std::array<std::string_view, 9> kCopied = {"tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "tokenizer.model",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "chat_template.jinja",
                                                     "generation_config.json"};

/// Rows of base + adapter, tensor by tensor.
class Merger {
 public:
  Merger(const MergedModel& merged, ThreadPool& threads) : merged_(merged), threads_(threads) {
    if (merged.adapter == nullptr) return;
    for (const auto& module : merged.adapter->layout().modules())
      modules_.emplace(module.name + ".weight", &module);
  }

  Result<void> write(const TensorShape& tensor, const formats::WriteBytes& write) const {
    const bool is_tied_head = tensor.name == kHead && merged_.base.config().tied_head;
    TINKER_TRY(
        const auto source,
        merged_.base.tensor(is_tied_head ? kEmbedding : tensor.name, tensor.rows, tensor.cols));
    const auto found = modules_.find(tensor.name);
    const LoraModule* const module = found == modules_.end() ? nullptr : found->second;
    const std::size_t row_bytes =
        tensor.cols * (merged_.precision == EnginePrecision::f32 ? sizeof(float) : 2);
    const std::size_t rows = std::max<std::size_t>(1, kBlock / tensor.cols);
    std::string block(std::min(rows, tensor.rows) * row_bytes, '\0');
    for (std::size_t begin = 0; begin < tensor.rows; begin += rows) {
      const std::size_t count = std::min(rows, tensor.rows - begin);
      threads_.run(count, [&](std::size_t i, std::size_t /*thread*/) {
        std::vector<float> row(tensor.cols);
        source.read_row(begin + i, row);
        if (module != nullptr) add_adapter(*module, begin + i, row);
        encode(row, block.data() + i * row_bytes);
      });
      TINKER_TRY(write(std::string_view(block).substr(0, count * row_bytes)));
    }
    return {};
  }

 private:
  void add_adapter(const LoraModule& module, std::size_t row, std::span<float> out) const {
    const auto& layout = merged_.adapter->layout();
    const auto values = merged_.adapter->values();
    std::vector<float> sum(module.in);
    for (std::size_t r = 0; r < layout.config().rank; ++r) {
      const float factor = layout.scale() * values[module.b + r * module.out + row];
      const auto a = values.subspan(module.a + r * module.in, module.in);
      for (std::size_t i = 0; i < module.in; ++i) sum[i] += factor * a[i];
    }
    for (std::size_t i = 0; i < module.in; ++i) out[i] += sum[i];
  }

  void encode(std::span<const float> row, char* out) const {
    if (merged_.precision == EnginePrecision::f32) {
      std::memcpy(out, row.data(), row.size_bytes());
      return;
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::uint16_t bits = base::to_bf16(row[i]);
      std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
    }
  }

  const MergedModel& merged_;
  ThreadPool& threads_;
  std::map<std::string, const LoraModule*, std::less<>> modules_;
};

Result<void> check(const Path& folder, const MergedModel& merged) {
  TINKER_TRY(check_new_folder(folder));
  if (merged.adapter == nullptr) return {};
  if (merged.adapter->layout().fits(merged.base.config())) return {};
  return Error::invalid_argument("the adapter is that of another model");
}

Result<void> copy_tokenizer(const Path& source, const base::AtomicFolder& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(source, error)) return {};
  for (const auto name : kCopied) {
    if (!std::filesystem::exists(source / name, error)) continue;
    TINKER_TRY(const auto file, formats::MappedFile::open(source / name));
    TINKER_TRY(folder.write(name, file.bytes()));
  }
  return {};
}

}  // namespace

Result<void> write_merged_model(const Path& folder,
                                const MergedModel& merged,
                                ThreadPool& threads) {
  TINKER_TRY(check(folder, merged));
  TINKER_TRY(auto config, in_words_of_config_json(merged.base.config()));
  if (merged.adapter != nullptr && merged.adapter->layout().has(LoraGroup::head))
    config.tied_head = false;
  TINKER_TRY(auto files, base::AtomicFolder::create(folder.string()));
  const Merger merger(merged, threads);
  TINKER_TRY(write_model(files.written(),
                         config,
                         merged.precision == EnginePrecision::f32 ? Dtype::f32 : Dtype::bf16,
                         [&](const TensorShape& tensor, const formats::WriteBytes& write) {
                           return merger.write(tensor, write);
                         }));
  TINKER_TRY(copy_tokenizer(merged.source, files));
  return files.commit();
}

}  // namespace tinker::engine
