#include "server/external_export.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "base/atomic_file.h"
#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/strings.h"
#include "server/commit_once.h"
#include "server/errors.h"
#include "server/service.h"
#include "tinker/types/weights.h"
#include "wire/json.h"

namespace tinker::server {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20U;

Result<void> encrypt_file(const std::string& path, const std::vector<std::string>& recipients) {
  base::FileDescriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.is_open()) return base::system_error("open", path);
  TINKER_TRY(auto out, base::AtomicFile::create(path + ".age"));
  TINKER_TRY(auto encryptor, AgeEncryptor::create(recipients));
  std::string buffer(kPiece, '\0');
  std::string sealed;
  while (true) {
    TINKER_TRY(const auto piece, base::read_some(in, buffer, path));
    if (piece.empty()) break;
    sealed.clear();
    TINKER_TRY(encryptor.update(piece, sealed));
    TINKER_TRY(out.write(sealed));
  }
  sealed.clear();
  TINKER_TRY(encryptor.finish(sealed));
  TINKER_TRY(out.write(sealed));
  return out.commit();
}

async::Task<CheckpointRecord> export_adapter(std::shared_ptr<Service> service,
                                             std::shared_ptr<LiveRun> run,
                                             ExternalSave save) {
  auto writing = run->trainer().save_async(save.place.folder, CheckpointParts::weights);
  auto wait = async::until(std::move(writing));
  TINKER_CO_TRY(co_await wait);
  if (!save.recipients.empty()) {
    auto encrypted = service->work([folder = save.place.folder, recipients = save.recipients] {
      return encrypt_folder(folder, recipients);
    });
    auto encrypting = async::until(std::move(encrypted));
    TINKER_CO_TRY(co_await encrypting);
  }
  // A checkpoint of a request that is not in the journal would be made twice after a crash.
  auto recording = run->recorded();
  TINKER_CO_TRY(co_await std::move(recording));
  auto stored = service->disk.run([save](Store& store) {
    return commit_once(store, save.record, save.place, true, save.earlier);
  });
  auto committing = async::until(std::move(stored));
  TINKER_CO_TRY(auto record, co_await committing);
  if (record.folder == save.place.name) service->note_save(run->record, record);
  co_return record;
}

}  // namespace

Result<void> encrypt_folder(const std::filesystem::path& folder,
                            const std::vector<std::string>& recipients) {
  std::error_code error;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file()) files.push_back(it->path().string());
  }
  if (error) {
    return Error{.code = ErrorCode::io_error,
                 .message = base::concat("read ", folder.string(), ": ", error.message())};
  }
  for (const auto& file : files) {
    TINKER_TRY(encrypt_file(file, recipients));
    std::filesystem::remove(file, error);
    if (error)
      return Error{.code = ErrorCode::io_error,
                   .message = base::concat("remove ", file, ": ", error.message())};
  }
  return base::sync_folder(folder.string());
}

async::Task<EncodedResult> run_external_save(std::shared_ptr<Service> service,
                                             std::shared_ptr<LiveRun> run,
                                             ExternalSave save) {
  const CheckpointPlace place = save.place;
  auto exporting = export_adapter(service, std::move(run), std::move(save));
  auto record = co_await std::move(exporting);
  if (!record.ok()) {
    auto gone = service->disk.run([place](Store& store) -> Result<void> {
      store.abandon_checkpoint(place);
      return {};
    });
    auto wait = async::until(std::move(gone));
    (void)co_await wait;
    co_return record.error();
  }
  TINKER_CO_TRY(std::string json,
                wire::encode_json(SaveWeightsExternalResponseInternal{
                    .path = record->path().to_string(), .size_bytes = record->size_bytes}));
  co_return EncodedResult{.body = std::move(json)};
}

}  // namespace tinker::server
