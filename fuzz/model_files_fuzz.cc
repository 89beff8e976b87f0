#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "engine/model_files.h"
#include "engine/random_model.h"
#include "tinker/check.h"

namespace {

namespace fs = std::filesystem;
using namespace tinker;

/// A folder with a small model in a.safetensors; its index is still to be written.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("model_files_fuzz_" + std::to_string(::getpid()))) {
    const engine::ModelConfig config = {.vocab_size = 2,
                                        .hidden_size = 2,
                                        .ffn_size = 2,
                                        .layers = 1,
                                        .heads = 1,
                                        .kv_heads = 1,
                                        .head_dim = 2,
                                        .context_length = 8,
                                        .tied_head = true};
    fs::create_directories(path_);
    TINKER_CHECK(engine::write_random_model(path_, config, 1).ok());
    fs::rename(path_ / "model.safetensors", path_ / "a.safetensors");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  [[nodiscard]] const fs::path& path() const { return path_; }
  /// Removes the file when there is nothing to write.
  void write(const char* name, std::string_view bytes) const {
    fs::remove(path_ / name);
    if (!bytes.empty()) std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  fs::path path_;
};

/// What comes before the next zero byte; the rest stays.
std::string_view take_part(std::string_view& rest) {
  const auto end = rest.find('\0');
  const auto part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

}  // namespace

// A GGUF file; or, with zero bytes between them, the index and the generation config of a folder
// and a second file of tensors. What opens has every tensor of its config, and they can be read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const bool is_gguf = rest.starts_with("GGUF");
  folder.write("model.gguf", is_gguf ? rest : "");
  if (!is_gguf) {
    folder.write("model.safetensors.index.json", take_part(rest));
    folder.write("generation_config.json", take_part(rest));
    folder.write("b.safetensors", rest);
  }
  const auto files =
      engine::ModelFiles::open(is_gguf ? folder.path() / "model.gguf" : folder.path());
  if (!files.ok()) return 0;
  for (const auto& [name, rows, cols, is_vector] : engine::tensors_of(files->config())) {
    const auto tensor = files->tensor(name, rows, cols);
    TINKER_CHECK(tensor.ok());
    std::vector<float> row(cols);
    tensor->read_row(0, row);
    tensor->read_row(rows - 1, row);
  }
  return 0;
}
