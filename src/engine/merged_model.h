#pragma once

#include <filesystem>

#include "engine/adapter.h"
#include "engine/model_files.h"
#include "engine/thread_pool.h"
#include "tinker/engine.h"
#include "tinker/result.h"

namespace tinker::engine {

struct MergedModel {
  const ModelFiles& base;
  const std::filesystem::path& source;  ///< Of the base; its tokenizer files are copied.
  const Adapter* adapter = nullptr;     ///< None: the base as it is.
  EnginePrecision precision = EnginePrecision::f32;
};

/// Makes a Hugging Face folder of base + adapter, W + scale * B A for each adapted W, computed in
/// float32 from what the files of the base hold, a few rows at a time. A tied head that is adapted
/// becomes one of its own. Until all of it is on the disk there is no such folder. Fails with
/// `invalid_argument` for a folder that is not empty and for an adapter of another model, with
/// `io_error` for what cannot be written.
Result<void> write_merged_model(const std::filesystem::path& folder,
                                const MergedModel& merged,
                                ThreadPool& threads);

}  // namespace tinker::engine
