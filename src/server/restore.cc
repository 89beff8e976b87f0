#include "server/restore.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/endpoints.h"
#include "server/errors.h"
#include "server/service.h"

namespace tinker::server {

namespace {

using Kind = JournalRecord::Kind;
using Opened = JournalFile::Opened;

using RestoredRuns = std::vector<std::shared_ptr<RestoredRun>>;

struct FoundRun {
  std::string run_id;
  std::filesystem::path folder;
  Result<Opened> log;
};

struct FoundSession {
  std::string session_id = {};
  std::optional<Result<Opened>> log = {};
  std::vector<std::filesystem::path> runs = {};
};

/// Of a text that this server wrote.
std::int64_t number_in(std::string_view digits) {
  std::int64_t out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

// ---- on a worker: reading the files

/// The names in `folder`, in order.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    out.push_back(it->path().filename().string());
  }
  std::ranges::sort(out);
  return out;
}

Result<Opened> open_log(const std::filesystem::path& folder) {
  TINKER_TRY(auto opened, JournalFile::open((folder / "log").string()));
  if (opened.records.empty() || opened.records.front().kind != Kind::created) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat(
                     "journal ", opened.file.path(), ": the request that made the run is missing")};
  }
  return opened;
}

/// Removes states that the log does not name: they were not complete, or not needed any more.
void remove_stale(const std::filesystem::path& folder, const std::vector<JournalRecord>& records) {
  std::set<std::string> wanted = {"log"};
  for (const auto& record : records) {
    if (record.kind == Kind::snapshot) wanted.insert(record.note);
    if (record.kind == Kind::sampler) wanted.insert(base::concat("sampler-", record.number));
    wanted.emplace(loaded_by(record));
  }
  for (const auto& name : names_in(folder)) {
    std::error_code ignored;
    if (!wanted.contains(name)) std::filesystem::remove_all(folder / name, ignored);
  }
}

FoundRun open_run(const std::string& session_id, const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  auto log = open_log(folder);
  if (log.ok()) remove_stale(folder, log->records);
  return {.run_id = base::concat(session_id, ":train:", name.substr(name.find('-') + 1)),
          .folder = folder,
          .log = std::move(log)};
}

/// Whether a run's folder has no log: the run was over, or its client was not told that it began.
bool is_left(const std::filesystem::path& folder) {
  std::error_code error;
  return !std::filesystem::exists(folder / "log", error) && !error;
}

FoundSession read_session(const std::filesystem::path& folder) {
  FoundSession out = {.session_id = folder.filename().string()};
  for (const auto& name : names_in(folder)) {
    if (name == "session") out.log = JournalFile::open((folder / name).string());
    if (!name.starts_with("train-")) continue;
    if (is_left(folder / name)) {
      std::error_code ignored;
      std::filesystem::remove_all(folder / name, ignored);
    } else {
      out.runs.push_back(folder / name);
    }
  }
  return out;
}

// ---- on the loop: doing it again

/// Waits for a call of the store.
template <typename F>
auto ask(Service& service, F f) {
  return async::until(service.disk.run(std::move(f)));
}

/// A run that cannot be restored is there all the same, to say so.
async::Task<> add_failed(std::shared_ptr<Service> service,
                         std::shared_ptr<Session> session,
                         std::string run_id,
                         Error error) {
  error = std::move(error).with_context(base::concat("model '", run_id, "' cannot be restored"));
  service->options().logger.write(LogLevel::error, error.to_string());
  if (const auto made = service->find_run(run_id, session->record.owner); made.ok()) {
    (*made)->fail(error);
    co_return Result<void>();
  }
  // The number is used up: a new run would replace the journal.
  const UntypedApiFuture answer = {.request_id = run_id + ":0", .model_id = run_id};
  const auto number = number_in(std::string_view(run_id).substr(run_id.rfind(':') + 1));
  session->models[number] = {.payload_hash = std::nullopt, .answer = answer};
  service->futures.open({.request_id = answer.request_id, .owner = session->record.owner});
  service->futures.finish(answer.request_id, error);
  auto wait = ask(*service, [run_id](Store& store) { return store.find_run(run_id); });
  TINKER_CO_TRY(auto record, co_await wait);
  if (!record) record = RunRecord{.run_id = run_id, .session_id = session->record.session_id};
  record->owner = session->record.owner;
  auto run =
      std::make_shared<LiveRun>(service, *std::move(record), session->scope, LiveRun::Journalled());
  run->fail(error);
  service->add_run(std::move(run));
  co_return Result<void>();
}

/// One record of a journal, as if its request came again.
async::Task<> replay_record(std::shared_ptr<Service> service,
                            JournalRecord record,
                            std::shared_ptr<RestoredRun> run,
                            std::shared_ptr<const Result<EncodedResult>> outcome) {
  Call call = {.service = std::move(service),
               .request = http::ServerRequest(nullptr),
               .writer = http::ResponseWriter(nullptr),
               .caller = {.owner = record.owner},
               .payload_hash = record.payload_hash};
  call.source = {.body = record.body,
                 .content_type = record.content_type,
                 .is_replay = true,
                 .request_id = record.request_id,
                 .note = record.note,
                 .outcome = std::move(outcome),
                 .run = std::move(run)};
  auto again = replay(std::move(call), record.type, std::string(record.content()));
  co_return co_await std::move(again);
}

std::shared_ptr<RestoredRun> begin_with(Service& service, const FoundRun& found, JournalFile file) {
  auto out = std::make_shared<RestoredRun>();
  out->journal = service.journals->resume(found.folder, std::move(file), service.futures);
  for (const auto& record : found.log->records) {
    if (record.kind == Kind::created) out->journal->replay(record);
    if (record.kind == Kind::sampler) {
      UnnamedSave save = {.run_id = found.run_id, .number = record.number};
      if (!record.note.empty()) save.seq_id = number_in(record.note);
      out->journal->found_sampler(save);
      out->samplers.push_back(std::move(save));
    }
    if (record.kind != Kind::snapshot) continue;
    out->next = record.number;
    out->snapshot = found.folder / record.note;
    out->journal->found_snapshot(record);
  }
  return out;
}

/// All requests of a run, in the order in which they were accepted. Fails with the first that is
/// not accepted again.
async::Task<std::shared_ptr<RestoredRun>> replay_run(std::shared_ptr<Service> service,
                                                     std::shared_ptr<FoundRun> found) {
  auto& opened = *found->log;
  const auto restored = begin_with(*service, *found, std::move(opened.file));
  const auto& created = opened.records.front();
  auto wait = ask(*service, [id = found->run_id](Store& store) { return store.find_run(id); });
  TINKER_CO_TRY(restored->record, co_await wait);
  auto creating = replay_record(service, created, restored, nullptr);
  TINKER_CO_TRY(co_await std::move(creating));
  TINKER_CO_TRY(const auto run, service->find_run(found->run_id, created.owner));
  std::set<std::string> requests;
  std::map<std::string, std::shared_ptr<const Result<EncodedResult>>> outcomes;
  for (const auto& record : opened.records) {
    if (record.kind == Kind::request) requests.insert(record.request_id);
  }
  for (const auto& record : opened.records) {
    if (record.kind != Kind::result) continue;
    if (requests.contains(record.request_id)) {
      outcomes[record.request_id] =
          std::make_shared<const Result<EncodedResult>>(result_of(record));
    } else {
      run->add_result(service, record);
    }
  }
  for (const auto& record : opened.records) {
    if (record.kind != Kind::request) continue;
    auto again = replay_record(service, record, nullptr, outcomes[record.request_id]);
    TINKER_CO_TRY(co_await std::move(again));
  }
  service->options().logger.write(
      LogLevel::info,
      base::concat("model '", found->run_id, "' goes on: ", requests.size(), " requests again"));
  co_return restored;
}

/// Which numbers the samples of an earlier life may have: clients that poll for them are told that
/// they are lost.
void find_lost_samples(Service& service, const std::vector<JournalRecord>& records) {
  for (const auto& record : records) {
    if (record.kind != Kind::samples) continue;
    service.journals->sample_numbers.found(
        {.sampler_id = record.request_id, .clone = (record.number - 1) / kClone},
        {.first = number_in(record.note), .end = record.number});
  }
}

async::Task<> replay_session(std::shared_ptr<Service> service,
                             std::string session_id,
                             Result<Opened> log) {
  TINKER_CO_TRY(auto opened, std::move(log));
  service->journals->resume_session(session_id, std::move(opened.file));
  for (const auto& record : opened.records) {
    if (record.kind != Kind::loss) continue;
    auto again = replay_record(service, record, nullptr, nullptr);
    TINKER_CO_TRY(co_await std::move(again));
  }
  find_lost_samples(*service, opened.records);
  co_return Result<void>();
}

async::Task<> restore_session(std::shared_ptr<Service> service,
                              FoundSession found,
                              std::shared_ptr<RestoredRuns> restored) {
  auto wait =
      ask(*service, [id = found.session_id](Store& store) { return store.find_session(id); });
  TINKER_CO_TRY(const auto record, co_await wait);
  if (!record) co_return no_such("session of a journal", found.session_id);
  auto search = service->sessions.find_open(found.session_id, record->owner);
  const auto session = co_await std::move(search);
  if (!session.ok()) {
    if (session.error().code != ErrorCode::expired) co_return session.error();
    service->journals->forget(found.session_id);  // it ended while the server did
    co_return Result<void>();
  }
  Result<void> replayed;
  if (found.log) {
    auto replaying = replay_session(service, found.session_id, *std::move(found.log));
    replayed = co_await std::move(replaying);  // without its losses no run can go on
  }
  for (const auto& folder : found.runs) {
    auto opening = service->work([id = found.session_id, folder] { return open_run(id, folder); });
    auto opened = async::until(std::move(opening));
    TINKER_CO_TRY(auto each, co_await opened);
    const std::string run_id = each.run_id;
    Result<std::shared_ptr<RestoredRun>> run = std::make_shared<RestoredRun>();
    if (!replayed.ok()) {
      run = replayed.error();
    } else if (!each.log.ok()) {
      run = each.log.error();
    } else {
      auto replaying = replay_run(service, std::make_shared<FoundRun>(std::move(each)));
      run = co_await std::move(replaying);
    }
    if (run.ok()) {
      restored->push_back(*std::move(run));
      continue;
    }
    auto failing = add_failed(service, *session, run_id, run.error());
    TINKER_CO_TRY(co_await std::move(failing));
  }
  co_return replayed;
}

}  // namespace

async::Task<> restore_runs(std::shared_ptr<Service> service) {
  const auto folder = service->journals->folder();
  auto looking = service->work([folder] { return names_in(folder); });
  auto wait = async::until(std::move(looking));
  TINKER_CO_TRY(const auto names, co_await wait);
  const auto restored = std::make_shared<RestoredRuns>();
  for (const auto& name : names) {  // one log at a time is in memory
    auto reading = service->work([folder, name] { return read_session(folder / name); });
    auto read = async::until(std::move(reading));
    TINKER_CO_TRY(auto session, co_await read);
    auto restoring = restore_session(service, std::move(session), restored);
    if (const auto done = co_await std::move(restoring); !done.ok()) {
      service->options().logger.write(LogLevel::error, done.error().to_string());
    }
  }
  for (const auto& run : *restored) run->build();
  co_return Result<void>();
}

}  // namespace tinker::server
