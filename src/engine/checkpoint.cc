#include "engine/checkpoint.h"

#include <array>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_folder.h"
#include "base/strings.h"
#include "engine/adapter_config.h"
#include "engine/peft.h"
#include "formats/mapped_file.h"
#include "formats/safetensors.h"

namespace tinker::engine {
namespace {

using Path = std::filesystem::path;
using formats::MappedFile;
using formats::Safetensors;

constexpr auto kWeights = "adapter_model.safetensors";
constexpr auto kConfig = "adapter_config.json";
constexpr auto kOptimizer = "optimizer.safetensors";
constexpr auto kComplete = "checkpoint_complete";

constexpr std::string_view kFamily = "optimizer";
constexpr std::string_view kStep = "step";
constexpr std::array<std::string_view, 2> kMoments = {"m.", "v."};

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

bool is_there(const Path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// Calls `read(text)` for what a file holds, and names the file if that fails.
template <typename Read>
auto read_file(const Path& path, Read read) -> decltype(read(std::string_view())) {
  TINKER_TRY(const auto file, MappedFile::open(path));
  auto out = read(file.bytes());
  if (!out.ok()) return out.error().with_context(path.string());
  return out;
}

Result<void> check_replaceable(const Path& folder) {
  std::error_code error;
  if (!is_there(folder) || is_there(folder / kConfig)) return {};
  if (std::filesystem::is_directory(folder, error) && std::filesystem::is_empty(folder, error))
    return {};
  return invalid(base::concat(folder.string(), " is there and no adapter; it is not replaced"));
}

Result<void> write_optimizer(const Path& path,
                             const LoraLayout& layout,
                             const OptimizerState& state) {
  std::vector<PeftNumbers> numbers;
  const auto add = [&](std::size_t moment, const Floats& values) {
    numbers.push_back({.prefix = kMoments.at(moment), .values = values.span()});
  };
  if (const auto* const adam = std::get_if<AdamState>(&state)) {
    add(0, adam->m);
    add(1, adam->v);
  } else {
    add(0, std::get<MuonState>(state).m);
  }
  if (steps_of(state) == 0) numbers.clear();
  return write_peft_tensors(path,
                            layout,
                            numbers,
                            {{"format", "pt"},
                             {std::string(kFamily), std::string(family_of(state))},
                             {std::string(kStep), base::concat(steps_of(state))}});
}

Result<std::string_view> metadata_of(const Safetensors& file, std::string_view name) {
  const auto found = file.metadata().find(name);
  if (found == file.metadata().end()) return invalid(base::concat("no metadata '", name, "'"));
  return std::string_view(found->second);
}

Result<std::int64_t> step_in(const Safetensors& file) {
  TINKER_TRY(const auto text, metadata_of(file, kStep));
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error == std::errc() && end == text.data() + text.size() && step >= 0) return step;
  return invalid(base::concat("metadata '", kStep, "' is '", text, "', expected a number"));
}

std::string trained_by(const LoraShape& shape) {
  std::string out;
  const auto add = [&](bool is_trained, std::string_view name) {
    if (is_trained) out += base::concat(out.empty() ? "" : ", ", name);
  };
  add(shape.train_attn, "attention");
  add(shape.train_mlp, "mlp");
  add(shape.train_unembed, "unembed");
  return out;
}

}  // namespace

Result<void> save_checkpoint(const Path& folder,
                             const Adapter& adapter,
                             const OptimizerState* optimizer,
                             const std::string& base_model) {
  TINKER_TRY(check_replaceable(folder));
  TINKER_TRY(auto files, base::AtomicFolder::create(folder.string()));
  const Path written = files.written();
  const auto& layout = adapter.layout();
  const PeftNumbers weights = {.prefix = "", .values = adapter.values()};
  TINKER_TRY(write_peft_tensors(written / kWeights, layout, {&weights, 1}, {{"format", "pt"}}));
  TINKER_TRY(files.write(kConfig, to_json(layout.config(), base_model)));
  if (optimizer != nullptr) {
    TINKER_TRY(write_optimizer(written / kOptimizer, layout, *optimizer));
  }
  TINKER_TRY(files.write(kComplete, ""));
  return files.commit();
}

Result<Checkpoint> load_checkpoint(const Path& folder,
                                   const ModelConfig& model,
                                   CheckpointParts parts) {
  if (!is_there(folder / kConfig)) {
    return invalid(base::concat(folder.string(), ": no checkpoint; there is no ", kConfig));
  }
  if (!is_there(folder / kComplete)) {
    return invalid(base::concat(folder.string(),
                                ": there is no ",
                                kComplete,
                                "; whoever wrote it may have been interrupted"));
  }
  Checkpoint out;
  TINKER_TRY(out.layout, read_file(folder / kConfig, [&](std::string_view text) {
               const auto shape = read_adapter_config(text);
               if (!shape.ok()) return Result<decltype(out.layout)>(shape.error());
               return LoraLayout::create(model, *shape);
             }));
  TINKER_TRY(out.values, read_file(folder / kWeights, [&](std::string_view bytes) {
               const auto file = Safetensors::parse(bytes);
               return file.ok() ? read_peft_tensors(*file, *out.layout)
                                : Result<Floats>(file.error());
             }));
  if (parts == CheckpointParts::weights) return out;
  if (!is_there(folder / kOptimizer)) {
    return invalid(base::concat(folder.string(),
                                ": there is no ",
                                kOptimizer,
                                "; it can be loaded without the optimizer's state"));
  }
  TINKER_TRY(out.optimizer, read_file(folder / kOptimizer, [&](std::string_view bytes) {
               return read_optimizer_state(bytes, *out.layout);
             }));
  return out;
}

Result<OptimizerState> read_optimizer_state(std::string_view bytes, const LoraLayout& layout) {
  TINKER_TRY(const auto file, Safetensors::parse(bytes));
  TINKER_TRY(const auto family, metadata_of(file, kFamily));
  TINKER_TRY(const auto step, step_in(file));
  const bool is_adam = family == family_of(AdamState());
  if (!is_adam && family != family_of(MuonState())) {
    return invalid(
        base::concat("metadata '", kFamily, "' is '", family, "', expected adamw or muon"));
  }
  const std::size_t count = step == 0 ? 0 : (is_adam ? 2 : 1);
  TINKER_TRY(auto moments, read_peft_tensors(file, layout, std::span(kMoments).first(count)));
  moments.resize(kMoments.size());
  if (is_adam) {
    return OptimizerState(
        AdamState{.m = std::move(moments[0]), .v = std::move(moments[1]), .step = step});
  }
  return OptimizerState(MuonState{.m = std::move(moments[0]), .step = step});
}

Result<void> check_same_shape(const LoraShape& found, const LoraShape& expected) {
  const auto refuse = [](std::string_view name, const auto& value, const auto& wanted) {
    return invalid(base::concat(name, " is ", value, "; expected ", wanted, ", as in this run"));
  };
  if (found.rank != expected.rank) return refuse("rank", found.rank, expected.rank);
  if (found.alpha != expected.alpha) return refuse("alpha", found.alpha, expected.alpha);
  if (trained_by(found) == trained_by(expected)) return {};
  return refuse("what it trains", trained_by(found), trained_by(expected));
}

}  // namespace tinker::engine
