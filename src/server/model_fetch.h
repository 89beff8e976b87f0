#pragma once

#include "tinker/local_server.h"
#include "tinker/result.h"

namespace tinker::server {

/// Fetches `options.models` that are the hub's and that its cache lacks, one after the other, into
/// the cache; `options.hub` says whether the hub may be asked. Blocks, for as long as it takes.
///
/// Before the weights are begun it is clear that the engine can run the model and that the disk has
/// room. What was begun is taken up by the next call. A model appears in the cache, under its
/// branch, when all of it is there.
///
/// Fails, naming the model: `not_found`, `unauthenticated` and `permission_denied` as `Hub` does,
/// `invalid_argument` for a model that the engine cannot run, `io_error` for the disk, and as the
/// transport does.
Result<void> fetch_models(const LocalServerOptions& options);

}  // namespace tinker::server
