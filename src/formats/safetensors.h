#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"

namespace tinker::formats {

/// What a safetensors file holds: named tensors and a few strings. It is read as strictly as the
/// official library does: the data of the tensors fill the file without holes or overlaps.
///
/// Immutable. The data are views of the file, which must outlive it.
class Safetensors {
 public:
  /// In the order of the official library, which writes larger ones first.
  enum class Dtype {
    boolean,
    u8,
    i8,
    f8_e5m2,
    f8_e4m3,
    i16,
    u16,
    f16,
    bf16,
    i32,
    u32,
    f32,
    f64,
    i64,
    u64,
  };
  struct Tensor {
    std::string name = {};
    Dtype dtype = Dtype::f32;
    std::vector<std::uint64_t> shape = {};  ///< The last dimension is the contiguous one.
    std::string_view data = {};             ///< Little endian, not aligned.
  };
  using Metadata = std::map<std::string, std::string, std::less<>>;

  /// Fails with `invalid_argument`, and names the tensor.
  static Result<Safetensors> parse(std::string_view file);

  /// By name.
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const Tensor* find(std::string_view name) const noexcept;
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }

 private:
  friend class SafetensorsParser;

  std::vector<Tensor> tensors_;
  Metadata metadata_;
};

/// As in the files, e.g. "BF16".
std::string_view to_string(Safetensors::Dtype dtype) noexcept;

/// Makes the file, with the layout of the official library: the same bytes for the same content.
/// Until all of it is on the disk, `path` is what it was. Fails with `invalid_argument` for tensors
/// that no file can hold, with `io_error` for one that cannot be written.
Result<void> write_safetensors(const std::filesystem::path& path,
                               std::span<const Safetensors::Tensor> tensors,
                               const Safetensors::Metadata& metadata = {});

/// The same where the data need not be in memory all at once: `make_data(index, write)` is called
/// for each of the tensors, in the order of the file, and gives its bytes to `write`, piece by
/// piece. What the tensors themselves have as data is not looked at.
using WriteBytes = std::function<Result<void>(std::string_view bytes)>;
using MakeData = std::function<Result<void>(std::size_t index, const WriteBytes& write)>;
Result<void> write_safetensors(const std::filesystem::path& path,
                               std::span<const Safetensors::Tensor> tensors,
                               const Safetensors::Metadata& metadata,
                               const MakeData& make_data);

}  // namespace tinker::formats
