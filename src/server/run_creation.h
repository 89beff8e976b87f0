#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/task.h"
#include "server/call.h"
#include "server/live_run.h"
#include "server/records.h"
#include "server/sessions.h"
#include "tinker/result.h"
#include "tinker/types/model.h"
#include "tinker/types/promise.h"

namespace tinker::server {

class Service;

/// How a run begins: new, or as a checkpoint.
struct RunOrigin {
  std::optional<CheckpointRecord> checkpoint = {};
  bool with_optimizer = false;
  std::optional<Error> refusal =
      {};  ///< The request was accepted only to fail (PROTOCOL 10, rule 17).
  std::shared_ptr<RunJournal> journal = {};    ///< Null: the server keeps none.
  std::shared_ptr<RestoredRun> restored = {};  ///< A run of an earlier life, not a new one.
};

/// The run's place in its session: answers the repeat of a request with what the first one got.
/// Fails with `bad_request` when the number was used for another request.
Result<std::optional<UntypedApiFuture>> find_accepted(
    const std::map<std::int64_t, Accepted>& accepted,
    std::int64_t number,
    const std::string& payload_hash,
    std::string_view what);

/// Whether the session may have one more run, and its owner one more operation. Fails with
/// `bad_request` and `rate_limited`. A run of an earlier life always passes.
Result<void> check_new_run(const Call& call, const Session& session);

/// Fails with `bad_request` for a rank that no adapter here has.
Result<void> check_rank(const LoraConfig& lora);

/// Why an optimizer is not served; nothing if it is.
std::optional<Error> refuse_optimizer(const OptimizerConfig& config);

/// Gives a run that is not refused a journal, where the server keeps some: its request and what
/// `note` says, which the server chose, are written to it. A restored run gets the journal it had.
void add_journal(const Call& call,
                 std::string type,
                 const RunRecord& record,
                 std::string note,
                 RunOrigin& origin);

/// The answer to a request that made a run, when it is in the run's journal, on the disk.
async::Task<UntypedApiFuture> answer_when_recorded(std::shared_ptr<Service> service,
                                                   std::string owner,
                                                   UntypedApiFuture answer);

/// Makes a run and begins to load its model; what is asked of it meanwhile waits. Of a request that
/// is refused nothing is left but its operation, which has failed. Yields the answer to the
/// request. `encode` makes the operation's result once the run is there.
UntypedApiFuture create_run(const std::shared_ptr<Service>& service,
                            const std::shared_ptr<Session>& session,
                            RunRecord record,
                            RunOrigin origin,
                            UniqueFunction<Result<std::string>()> encode);

}  // namespace tinker::server
