#include "engine/checkpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/atomic_folder.h"
#include "base/file_descriptor.h"
#include "base/files.h"
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
constexpr std::array<std::string_view, 4> kFiles = {kWeights, kConfig, kOptimizer, kComplete};

constexpr std::string_view kFamily = "optimizer";
constexpr std::string_view kStep = "step";
constexpr std::array<PeftPrefix, 2> kMoments = {PeftPrefix{.text = "m."},
                                                PeftPrefix{.text = "v.", .is_signed = false}};

bool is_there(const Path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// Fails unless all that is there are files of a checkpoint: the rest would be lost.
Result<void> check_replaceable(const Path& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!is_there(folder)) return {};
  if (!fs::is_directory(folder, error))
    return Error::invalid_argument(
        base::concat(folder.string(), " is there and no folder; it is not replaced"));
  std::vector<std::string> foreign;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    auto name = entry->path().filename().string();
    std::error_code ignored;
    const bool is_folder = entry->symlink_status(ignored).type() == fs::file_type::directory;
    if (is_folder || std::ranges::find(kFiles, name) == kFiles.end())
      foreign.push_back(std::move(name));
  }
  if (error) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat("list ", folder.string(), ": ", error.message())};
  }
  if (foreign.empty()) return {};
  return Error::invalid_argument(
      base::concat(folder.string(),
                   " holds ",
                   *std::ranges::min_element(foreign),
                   ", which is no file of a checkpoint; it is not replaced"));
}

/// A file that is open, and keeps what it held then.
class OpenFile {
 public:
  static Result<OpenFile> open(Path path) {
    TINKER_TRY(auto file, MappedFile::open(path));
    return OpenFile(std::move(path), std::move(file));
  }
  /// Calls `read(text)` for what it holds, and names the file if that fails.
  template <typename Read>
  auto read(Read read) const -> decltype(read(std::string_view())) {
    auto out = read(file_.bytes());
    if (!out.ok()) return out.error().with_context(path_.string());
    return out;
  }

 private:
  OpenFile(Path path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}

  Path path_;
  MappedFile file_;
};

struct OpenFiles {
  OpenFile config;
  OpenFile weights;
  std::optional<OpenFile> optimizer;
};

Result<OpenFiles> open_files(const Path& folder, CheckpointParts parts) {
  if (!is_there(folder / kConfig)) {
    return Error::invalid_argument(
        base::concat(folder.string(), ": no checkpoint; there is no ", kConfig));
  }
  if (!is_there(folder / kComplete)) {
    return Error::invalid_argument(base::concat(folder.string(),
                                                ": there is no ",
                                                kComplete,
                                                "; whoever wrote it may have been interrupted"));
  }
  TINKER_TRY(auto config, OpenFile::open(folder / kConfig));
  TINKER_TRY(auto weights, OpenFile::open(folder / kWeights));
  OpenFiles out = {.config = std::move(config), .weights = std::move(weights), .optimizer = {}};
  if (parts == CheckpointParts::weights) return out;
  if (!is_there(folder / kOptimizer)) {
    return Error::invalid_argument(
        base::concat(folder.string(),
                     ": there is no ",
                     kOptimizer,
                     "; it can be loaded without the optimizer's state"));
  }
  TINKER_TRY(out.optimizer, OpenFile::open(folder / kOptimizer));
  return out;
}

/// Whether a path still leads to a folder that was opened.
bool leads_to(const Path& path, const base::FileDescriptor& folder) {
  struct stat opened = {};
  struct stat found = {};
  return ::fstat(folder.get(), &opened) == 0 && ::stat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

/// The files of one checkpoint, also while another is put in its place.
Result<OpenFiles> open_files_of_one(const Path& folder, CheckpointParts parts) {
  constexpr int kAttempts = 100;  // each takes microseconds, a checkpoint milliseconds to write
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // As long as it is open, no other folder is given its number.
    const base::FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.is_open() && errno != ENOENT && errno != ENOTDIR)
      return base::system_error("open", folder.string());
    auto files = open_files(folder, parts);
    if (opened.is_open() ? leads_to(folder, opened) : !files.ok()) return files;
  }
  return Error{.code = ErrorCode::io_error,
               .message = base::concat(folder.string(),
                                       ": replaced ",
                                       kAttempts,
                                       " times while it was read; expected one checkpoint")};
}

Result<void> write_optimizer(const Path& path,
                             const LoraLayout& layout,
                             const OptimizerState& state) {
  std::vector<PeftNumbers> numbers;
  const auto add = [&](std::size_t moment, const Floats& values) {
    numbers.push_back({.prefix = kMoments.at(moment).text, .values = values.span()});
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
  if (found == file.metadata().end())
    return Error::invalid_argument(base::concat("no metadata '", name, "'"));
  return std::string_view(found->second);
}

Result<std::int64_t> step_in(const Safetensors& file) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53U;  // as many as a double can count
  TINKER_TRY(const auto text, metadata_of(file, kStep));
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error == std::errc() && end == text.data() + text.size() && step >= 0 && step <= kMost)
    return step;
  return Error::invalid_argument(
      base::concat("metadata '", kStep, "' is '", text, "', expected a number from 0 to ", kMost));
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
  TINKER_TRY(check_replaceable(folder));  // again: writing took a while
  return files.commit();
}

Result<Checkpoint> load_checkpoint(const Path& folder,
                                   const ModelConfig& model,
                                   CheckpointParts parts) {
  TINKER_TRY(const auto files, open_files_of_one(folder, parts));
  Checkpoint out;
  TINKER_TRY(out.layout, files.config.read([&](std::string_view text) {
    const auto shape = read_adapter_config(text);
    if (!shape.ok()) return Result<decltype(out.layout)>(shape.error());
    return LoraLayout::create(model, *shape);
  }));
  TINKER_TRY(out.values, files.weights.read([&](std::string_view bytes) {
    const auto file = Safetensors::parse(bytes);
    return file.ok() ? read_peft_tensors(*file, *out.layout) : Result<Floats>(file.error());
  }));
  if (!files.optimizer) return out;
  TINKER_TRY(out.optimizer, files.optimizer->read([&](std::string_view bytes) {
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
    return Error::invalid_argument(
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
    return Error::invalid_argument(
        base::concat(name, " is ", value, "; expected ", wanted, ", as in this run"));
  };
  if (found.rank != expected.rank) return refuse("rank", found.rank, expected.rank);
  if (found.alpha != expected.alpha) return refuse("alpha", found.alpha, expected.alpha);
  if (trained_by(found) == trained_by(expected)) return {};
  return refuse("what it trains", trained_by(found), trained_by(expected));
}

}  // namespace tinker::engine
