#include "engine/model_files.h"

#include <array>
#include <set>
#include <utility>

#include <simdjson.h>

#include "base/strings.h"
#include "engine/rope_rows.h"
#include "formats/gguf.h"
#include "formats/json_object.h"
#include "formats/safetensors.h"
#include "formats/shape_text.h"
#include "tinker/check.h"

namespace tinker::engine {

namespace {

using Path = std::filesystem::path;
using Architecture = ModelConfig::Architecture;
using formats::MappedFile;
using formats::shape_text;

using Names = std::pair<std::string_view, std::string_view>;
// GGUF's, Hugging Face's.
constexpr std::array<Names, 3> kNames = {{
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
}};
constexpr std::array<Names, 11> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};

/// Hugging Face's name for a tensor of a GGUF file; one that is not known stays.
std::string translated(std::string_view name) {
  for (const auto& [from, to] : kNames) {
    if (name == from) return std::string(to);
  }
  // blk.LAYER.PART.weight
  constexpr std::string_view kPrefix = "blk.";
  const auto layer_end = name.find('.', kPrefix.size());
  const auto part_end = name.rfind('.');
  if (!name.starts_with(kPrefix) || layer_end >= part_end) return std::string(name);
  const auto layer = name.substr(kPrefix.size(), layer_end - kPrefix.size());
  const auto part = name.substr(layer_end + 1, part_end - layer_end - 1);
  for (const auto& [from, to] : kLayerNames) {
    if (part == from) return base::concat("model.layers.", layer, ".", to, name.substr(part_end));
  }
  return std::string(name);
}

/// What files hold besides the weights, and what a tied head makes superfluous.
bool is_harmless(std::string_view name) {
  return name == "rope_freqs.weight" || name == "lm_head.weight" ||
         name.ends_with("rotary_emb.inv_freq");
}

Error refuse(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

bool is_there(const Path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

template <typename T>
Result<T> with_name(Result<T> result, const Path& path) {
  if (!result.ok()) return result.error().with_context(path.string());
  return result;
}

Result<std::set<std::string>> read_index(std::string_view text) {
  simdjson::dom::parser parser;
  TINKER_TRY(const auto json, formats::JsonObject::parse(text, parser));
  TINKER_TRY(const auto tensors, json.object("weight_map"));
  std::set<std::string> out;
  TINKER_TRY(tensors.for_each_member(
      [&out](std::string_view tensor, formats::JsonObject::Element element) -> Result<void> {
        std::string_view name;
        // A stranger's name must not lead out of the folder.
        if (element.get_string().get(name) != simdjson::SUCCESS ||
            Path(name).filename() != Path(name)) {
          return refuse(base::concat("tensor '", tensor, "' is in no file of this folder"));
        }
        out.emplace(name);
        return {};
      }));
  return out;
}

}  // namespace

Result<std::set<std::string>> files_in_index(const Path& index) {
  TINKER_TRY(const auto file, MappedFile::open(index));
  return with_name(read_index(file.bytes()), index);
}

/// Fills a `ModelFiles`.
class ModelLoader {
 public:
  Result<ModelFiles> load(const Path& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      TINKER_TRY(load_folder(path));
    } else {
      TINKER_TRY(load_gguf(path));
    }
    if (const auto checked = out_.check(); !checked.ok()) {
      return checked.error().with_context(path.string());
    }
    return std::move(out_);
  }

 private:
  Result<void> load_folder(const Path& folder) {
    const auto single = folder / "model.safetensors";
    const auto index = folder / "model.safetensors.index.json";
    if (is_there(single)) {
      TINKER_TRY(load_config(folder));
      return load_safetensors(single);
    }
    if (is_there(index)) {
      TINKER_TRY(load_config(folder));
      TINKER_TRY(const auto names, files_in_index(index));
      for (const auto& name : names) {
        TINKER_TRY(load_safetensors(folder / name));
      }
      return {};
    }
    TINKER_TRY(const auto gguf, only_gguf_in(folder));
    return load_gguf(gguf);
  }

  Result<void> load_config(const Path& folder) {
    const auto generation = folder / "generation_config.json";
    TINKER_TRY(const auto config, MappedFile::open(folder / "config.json"));
    std::string generation_text;
    if (is_there(generation)) {
      TINKER_TRY(const auto file, MappedFile::open(generation));
      generation_text = file.bytes();
    }
    TINKER_TRY(out_.config_, with_name(read_model_config(config.bytes(), generation_text), folder));
    return {};
  }

  static Result<Path> only_gguf_in(const Path& folder) {
    std::vector<Path> found;
    std::error_code error;
    for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
         file.increment(error)) {
      if (file->path().extension() == ".gguf") found.push_back(file->path());
    }
    if (found.size() == 1) return found.front();
    return refuse(base::concat("no model in ",
                               folder.string(),
                               ": there is no model.safetensors, no model.safetensors.index.json, "
                               "no single *.gguf"));
  }

  Result<void> load_safetensors(const Path& path) {
    TINKER_TRY(auto file, MappedFile::open(path));
    TINKER_TRY(const auto content, with_name(formats::Safetensors::parse(file.bytes()), path));
    for (const auto& tensor : content.tensors()) {
      const auto type = to_string(tensor.dtype);
      TINKER_TRY(add(path,
                     tensor.name,
                     {.shape = tensor.shape,
                      .type_name = std::string(type),
                      .type = formats::find_ggml_type(type),
                      .data = tensor.data}));
    }
    out_.files_.push_back(std::move(file));
    return {};
  }

  Result<void> load_gguf(const Path& path) {
    TINKER_TRY(auto file, MappedFile::open(path));
    TINKER_TRY(const auto content, with_name(formats::Gguf::parse(file.bytes()), path));
    TINKER_TRY(out_.config_, with_name(read_model_config(content), path));
    const bool is_llama = out_.config_.architecture == Architecture::llama;
    for (const auto& tensor : content.tensors()) {
      const auto* const type = formats::find_ggml_type(tensor.type);
      const bool turns =
          tensor.name.ends_with(".attn_q.weight") || tensor.name.ends_with(".attn_k.weight");
      TINKER_TRY(add(path,
                     translated(tensor.name),
                     {.shape = {tensor.shape.rbegin(), tensor.shape.rend()},
                      .type_name = type ? std::string(type->name) : base::concat(tensor.type),
                      .type = type,
                      .data = tensor.data,
                      .has_pairs_of_rows = is_llama && turns}));
    }
    out_.files_.push_back(std::move(file));
    return {};
  }

  Result<void> add(const Path& path, const std::string& name, ModelFiles::Stored tensor) {
    if (out_.tensors_.emplace(name, std::move(tensor)).second) return {};
    return refuse(base::concat("tensor '", name, "' is there twice")).with_context(path.string());
  }

  ModelFiles out_;
};

void WeightTensor::read_row(std::size_t row, std::span<float> out) const {
  TINKER_CHECK(row < rows_ && out.size() == cols_);
  if (head_dim_ > 0) row = side_by_side_row(row, head_dim_);
  const std::size_t size = data_.size() / rows_;
  type_->dequantise(data_.substr(row * size, size), out);
}

Result<ModelFiles> ModelFiles::open(const Path& path) {
  return ModelLoader().load(path);
}

Result<WeightTensor> ModelFiles::tensor(std::string_view hugging_face_name,
                                        std::size_t rows,
                                        std::size_t cols) const {
  const auto found = tensors_.find(hugging_face_name);
  const auto fail = [&](std::string_view why) {
    return refuse(base::concat("tensor '", hugging_face_name, "' ", why));
  };
  if (found == tensors_.end()) return fail("is missing");
  const Stored& stored = found->second;
  auto expected = std::vector<std::uint64_t>{rows, cols};
  if (rows == 1 && stored.shape.size() == 1) expected.erase(expected.begin());
  if (stored.shape != expected) {
    return fail(base::concat(
        "has the shape ", shape_text(stored.shape), ", expected ", shape_text(expected)));
  }
  if (stored.type == nullptr || stored.type->dequantise == nullptr) {
    return fail(base::concat("is of type ", stored.type_name, ", which is not supported"));
  }
  WeightTensor out;
  out.type_ = stored.type;
  out.data_ = stored.data;
  out.rows_ = rows;
  out.cols_ = cols;
  out.head_dim_ = stored.has_pairs_of_rows ? config_.head_dim : 0;
  return out;
}

Result<void> ModelFiles::check() const {
  std::set<std::string, std::less<>> known;
  for (auto& [name, rows, cols, is_vector] : tensors_of(config_)) {
    TINKER_TRY(tensor(name, rows, cols));
    known.insert(std::move(name));
  }
  for (const auto& [name, stored] : tensors_) {
    if (known.contains(name) || is_harmless(name)) continue;
    return refuse(base::concat(
        "tensor '", name, "' is not one of a ", to_string(config_.architecture), " model"));
  }
  return {};
}

}  // namespace tinker::engine
