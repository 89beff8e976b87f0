#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_config.h"
#include "formats/ggml_blocks.h"
#include "formats/mapped_file.h"
#include "tinker/result.h"

namespace tinker::engine {

/// One tensor of a model as its file holds it: rows are read as floats, dequantised, and in Hugging
/// Face's order. A vector is one row. Valid as long as its `ModelFiles`.
///
/// Immutable.
class WeightTensor {
 public:
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t cols() const noexcept { return cols_; }
  /// Requires `row < rows()` and `out.size() == cols()`.
  void read_row(std::size_t row, std::span<float> out) const;

 private:
  friend class ModelFiles;
  WeightTensor() = default;

  const formats::GgmlType* type_ = nullptr;
  std::string_view data_ = {};
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::size_t head_dim_ = 0;  // where pairs of rows are side by side, see rope_rows.h
};

/// The files that hold the weights, as a model.safetensors.index.json says. Fails with
/// `invalid_argument`, also for a name that leads out of its folder.
Result<std::set<std::string>> files_in_index(const std::filesystem::path& index);

/// A model on disk: a Hugging Face folder (config.json, and model.safetensors or the files that
/// model.safetensors.index.json lists), a GGUF file, or a folder that holds one. All tensors that
/// its config asks for are there, and no others that would matter. The files stay mapped.
///
/// Immutable.
class ModelFiles {
 public:
  /// Fails with `invalid_argument`, and names the file, the member or the tensor.
  static Result<ModelFiles> open(const std::filesystem::path& path);

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  /// By Hugging Face's name, e.g. "model.embed_tokens.weight". Fails with `invalid_argument` unless
  /// it is there, has this shape, and is of a type that can be read.
  [[nodiscard]] Result<WeightTensor> tensor(std::string_view hugging_face_name,
                                            std::size_t rows,
                                            std::size_t cols) const;

 private:
  friend class ModelLoader;
  struct Stored {
    std::vector<std::uint64_t> shape = {};  // rows before columns
    std::string type_name = {};
    const formats::GgmlType* type = nullptr;  // null when it is not known
    std::string_view data = {};
    bool has_pairs_of_rows = false;  // side by side
  };

  ModelFiles() = default;
  [[nodiscard]] Result<void> check() const;

  std::vector<formats::MappedFile> files_;
  ModelConfig config_;
  std::map<std::string, Stored, std::less<>> tensors_;  // by Hugging Face's names
};

}  // namespace tinker::engine
