#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/model_registry.h"
#include "server/records.h"
#include "server/scratch_folder.h"
#include "tinker/local_server.h"

namespace tinker::server {

/// Adapters that were trained elsewhere and are offered to sample from. Everybody may read them,
/// nothing changes them.
///
/// Immutable.
class ImportedAdapters {
 public:
  ImportedAdapters() = default;
  /// Reads all of them and checks that each fits its base model. Fails with `invalid_argument`, and
  /// names the adapter. Blocks.
  static Result<ImportedAdapters> read(const std::vector<ServedAdapter>& adapters,
                                       const ModelRegistry& models);

  /// Null for other paths. The record's folder is absolute.
  [[nodiscard]] const CheckpointRecord* find(const TinkerPath& path) const;

 private:
  /// Has a folder for each adapter, which the engine takes for a checkpoint: links to PEFT's files,
  /// and the mark that they are complete.
  std::shared_ptr<const ScratchFolder> scratch_ = {};
  std::map<std::string, CheckpointRecord> by_name_ = {};
};

}  // namespace tinker::server
