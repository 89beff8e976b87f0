#pragma once

#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "server/age.h"
#include "server/future_store.h"
#include "server/live_run.h"
#include "server/store.h"

namespace tinker::server {

/// A save for other tools (PROTOCOL 9.44): PEFT's files, encrypted where recipients are named.
struct ExternalSave {
  CheckpointRecord record = {};
  CheckpointPlace place = {};
  std::vector<std::string> recipients = {};  ///< "age1…"; checked.
  /// The place that it had in an earlier life of the server: if the catalogue has it, all is done.
  std::string earlier = {};
};

async::Task<EncodedResult> run_external_save(std::shared_ptr<Service> service,
                                             std::shared_ptr<LiveRun> run,
                                             ExternalSave save);

/// Replaces each file of `folder` by its encrypted form, "NAME.age", and has them on the disk.
Result<void> encrypt_folder(const std::filesystem::path& folder,
                            const std::vector<std::string>& recipients);

}  // namespace tinker::server
