#pragma once

#include <string>

#include "server/store.h"

namespace tinker::server {

/// Takes a checkpoint into the catalogue, unless an earlier life of the server did so for the same
/// request: it then had the folder `earlier`.
inline Result<CheckpointRecord> commit_once(Store& store,
                                            const CheckpointRecord& record,
                                            const CheckpointPlace& place,
                                            bool overwrite,
                                            const std::string& earlier) {
  if (!earlier.empty()) {
    TINKER_TRY(auto known, store.find_checkpoint(record.path()));
    if (known && known->folder == earlier) {
      store.abandon_checkpoint(place);
      return *std::move(known);
    }
  }
  return store.commit_checkpoint(record, place, overwrite);
}

}  // namespace tinker::server
