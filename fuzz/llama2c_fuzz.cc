#include <cstdint>
#include <filesystem>
#include <string_view>

#include <unistd.h>

#include "engine/llama2c.h"
#include "engine/model_files.h"
#include "tinker/check.h"

// A file of llama2.c: what is accepted becomes a model that opens.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker;
  static const auto folder =
      std::filesystem::temp_directory_path() / ("llama2c_fuzz_" + std::to_string(::getpid()));
  const auto model = engine::Llama2c::parse({reinterpret_cast<const char*>(data), size});
  if (!model.ok()) return 0;
  TINKER_CHECK(model->write(folder).ok());
  const auto files = engine::ModelFiles::open(folder);
  TINKER_CHECK(files.ok() && files->config() == model->config());
  std::filesystem::remove_all(folder);
  return 0;
}
