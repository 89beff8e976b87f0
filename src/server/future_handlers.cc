#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/service.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::server {

namespace {

/// The answer to a poll (PROTOCOL 9.19).
struct Answer {
  const FutureRetrieveRequest& request;

  Result<Reply> operator()(const StillPending& pending) const {
    TINKER_TRY(std::string json,
               wire::encode_json(TryAgainResponse{
                   .request_id = request.request_id,
                   .queue_state = pending.state,
                   .queue_state_reason =
                       pending.reason.empty() ? std::nullopt : std::optional(pending.reason)}));
    return Reply{.status = 408, .body = std::move(json)};
  }
  Result<Reply> operator()(const TooLarge& large) const {
    TINKER_TRY(std::string json,
               wire::encode_json(CompleteMetadataResponse{
                   .response_payload_size = static_cast<std::int64_t>(large.bytes)}));
    return Reply{.body = std::move(json)};
  }
  Result<Reply> operator()(const Ready& ready) const {
    return Reply{
        .body = ready.result->body,
        .content_type = ready.result->is_protobuf ? "application/x-protobuf" : "application/json",
        .delivered_id = request.request_id};
  }
  Result<Reply> operator()(const Error& error) const {
    TINKER_TRY(std::string json,
               wire::encode_json(RequestFailedResponse{.error = error.to_string(),
                                                       .category = category_of(error)}));
    return Reply{.body = std::move(json), .delivered_id = request.request_id};
  }
  Result<Reply> operator()(const Expired&) const {
    return is_over("future", request.request_id, "has expired");
  }
  Result<Reply> operator()(const UnknownId&) const { return no_such("future", request.request_id); }
};

/// Whether an earlier life of the server may have accepted an id: it names a session that is known,
/// and no run or sampler that began in this life. 410 makes clients ask again for it; 404 is final.
async::Task<bool> is_of_earlier_life(Call call, std::string request_id) {
  const std::string target = request_id.substr(0, request_id.rfind(':'));
  const auto run = call.service->find_run(target, call.caller.owner);
  if (run.ok()) co_return (*run)->may_have_done(request_id);
  const auto sampler = call.service->samplers.find(target);
  if (sampler && sampler->record.owner == call.caller.owner) co_return sampler->is_revived;
  auto search =
      call.service->sessions.find(request_id.substr(0, request_id.find(':')), call.caller.owner);
  const auto session = co_await std::move(search);
  co_return session.ok() && request_id.find(':') != std::string::npos;
}

/// Whether the client asks for protobuf where a result has it (PROTOCOL 10.5).
bool reads_protobuf(const Call& call) {
  return call.header("accept").find("application/x-protobuf") != std::string_view::npos;
}

template <typename T>
Result<std::string> transcode(const std::string& protobuf) {
  TINKER_TRY(const T value, wire::decode_proto<T>(protobuf));
  return wire::encode_json(value);
}

/// A protobuf result as JSON, for clients that do not read protobuf. Blocks.
Result<std::string> to_json(const EncodedResult& result) {
  auto json = result.is_sample ? transcode<SampleResponse>(result.body)
                               : transcode<ForwardBackwardOutput>(result.body);
  if (json.ok()) return json;
  return Error{.code = ErrorCode::internal,
               .message = base::concat("result as JSON: ", json.error().message)};
}

}  // namespace

async::Task<Reply> retrieve_future(Call call, FutureRetrieveRequest request) {
  auto polling = call.service->futures.poll(
      request.request_id, call.caller.owner, request.allow_metadata_only);
  TINKER_CO_TRY(const auto answer, co_await std::move(polling));
  if (std::holds_alternative<UnknownId>(answer)) {
    auto looking = is_of_earlier_life(call, request.request_id);
    TINKER_CO_TRY(const bool is_old, co_await std::move(looking));
    if (is_old)
      co_return is_over("future", request.request_id, "is gone: the server was started again");
  }
  const auto* ready = std::get_if<Ready>(&answer);
  if (ready == nullptr || !ready->result->is_protobuf || reads_protobuf(call)) {
    co_return std::visit(Answer{request}, answer);
  }
  auto converting = call.service->work([result = ready->result] { return to_json(*result); });
  auto wait = async::until(std::move(converting));
  auto json = co_await wait;
  if (!json.ok()) co_return Answer{request}(json.error());
  co_return Reply{.body = *std::move(json), .delivered_id = request.request_id};
}

async::Task<FuturesRetrieveResponse> retrieve_futures(Call call, FuturesRetrieveRequest request) {
  auto search = call.service->find_sampler(request.target.sampling_session_id, call.caller.owner);
  TINKER_CO_TRY(co_await std::move(search));
  call.service->announce_lost_samples(request.target, call.caller.owner);
  auto polling = call.service->futures.poll_all(std::move(request), call.caller.owner);
  co_return co_await std::move(polling);
}

async::Task<> cancel_future(Call call, CancelFutureRequest request) {
  call.service->futures.cancel(request.request_id, call.caller.owner);
  co_return Result<void>();
}

}  // namespace tinker::server
