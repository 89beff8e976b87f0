// Sessions, their search and that of checkpoints, and promises. Wire order is declaration order.

#include "tinker/types/checkpoint_search.h"
#include "tinker/types/promise.h"
#include "tinker/types/session.h"
#include "tinker/types/session_search.h"
#include "wire/json_codec.h"

namespace tinker::wire {
namespace {

std::optional<Violation> check_owners(const UserSearchOwner& owner) {
  if (!owner.owner_urns.empty() && owner.owner_urns.size() <= 10) return std::nullopt;
  return Violation{
      .member = "owner_urns",
      .expected = base::concat("expected 1 to 10 owners, found ", owner.owner_urns.size())};
}

std::optional<Violation> check_reasons(const ClientFinishedSessionStatusQuery& query) {
  if (!query.reasons || !query.reasons->empty()) return std::nullopt;
  return Violation{.member = "reasons", .expected = "expected at least one reason, found none"};
}

std::optional<Violation> check_cursor(const SessionSearchCursor& cursor) {
  if (cursor.last_created_at.utc_offset()) return std::nullopt;
  return Violation{.member = "last_created_at",
                   .expected = "expected a date and time with an offset, found none"};
}

std::optional<Violation> check_checkpoint_cursor(const CheckpointSearchCursor& cursor) {
  if (cursor.last_created_at.utc_offset()) return std::nullopt;
  return Violation{.member = "last_created_at",
                   .expected = "expected a date and time with an offset, found none"};
}

std::optional<Violation> check_checkpoint_search(const CheckpointSearchRequest& request) {
  if (request.limit >= 1 && request.limit <= 200) return std::nullopt;
  return Violation{.member = "limit",
                   .expected = base::concat("expected 1 to 200, found ", request.limit)};
}

std::optional<Violation> check_search(const SessionSearchRequest& request) {
  if (request.display_name && request.display_name->empty()) {
    return Violation{.member = "display_name",
                     .expected = "expected at least one character, found none"};
  }
  if (request.statuses && request.statuses->empty()) {
    return Violation{.member = "statuses", .expected = "expected at least one status, found none"};
  }
  if (request.limit < 1 || request.limit > 200) {
    return Violation{.member = "limit",
                     .expected = base::concat("expected 1 to 200, found ", request.limit)};
  }
  return std::nullopt;
}

/// `{"type": "success"}`: a reason wrapped in an object of its own.
struct FinishReasonCodec {
  struct Members {
    SessionFinishReason type = {};
  };
  static constexpr std::string_view kExpected = "an object";

  static bool read(JsonView value, SessionFinishReason& out, Decoder& decoder) {
    static constexpr std::array kFields = {required<&Members::type>("type")};
    static constexpr Schema kSchema = {.fields = kFields};
    Members members;
    if (!read_object(value, &members, kSchema, decoder)) return false;
    out = members.type;
    return true;
  }
  static void write(SessionFinishReason in, JsonWriter& writer) {
    writer.begin_object();
    writer.key("type");
    writer.string(to_string(in));
    writer.end_object();
  }
};

}  // namespace

template <>
const Schema& schema_of<CreateSessionRequest>() {
  using T = CreateSessionRequest;
  static constexpr std::array kFields = {
      required<&T::tags>("tags"),
      nullable<&T::user_metadata>("user_metadata", Presence::required_nullable),
      required<&T::sdk_version>("sdk_version"),
      nullable<&T::project_id>("project_id"),
      nullable<&T::display_name>("display_name"),
      tag<"create_session">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<CreateSessionResponse>() {
  using T = CreateSessionResponse;
  static constexpr std::array kFields = {
      tag<"create_session">(),
      nullable<&T::info_message>("info_message"),
      nullable<&T::warning_message>("warning_message"),
      nullable<&T::error_message>("error_message"),
      required<&T::session_id>("session_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SessionHeartbeatRequest>() {
  using T = SessionHeartbeatRequest;
  static constexpr std::array kFields = {
      required<&T::session_id>("session_id"),
      tag<"session_heartbeat">(),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<SessionHeartbeatResponse>() {
  static constexpr std::array kFields = {tag<"session_heartbeat">()};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<FinishSessionRequest>() {
  using T = FinishSessionRequest;
  static constexpr std::array kFields = {
      required<&T::reason, FinishReasonCodec>("reason"),
      required<&T::detail>("detail"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<SetProjectRequest>() {
  using T = SetProjectRequest;
  static constexpr std::array kFields = {required<&T::project_id>("project_id")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<ListSessionsResponse>() {
  using T = ListSessionsResponse;
  static constexpr std::array kFields = {required<&T::sessions>("sessions")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GetSessionResponse>() {
  using T = GetSessionResponse;
  static constexpr std::array kFields = {
      required<&T::training_run_ids>("training_run_ids"),
      required<&T::sampler_ids>("sampler_ids"),
      nullable<&T::user_metadata>("user_metadata"),
      nullable<&T::display_name>("display_name"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SessionTraceExportPollResponse>() {
  using T = SessionTraceExportPollResponse;
  static constexpr std::array kFields = {
      required<&T::status>("status"),
      nullable<&T::url>("url"),
      nullable<&T::error>("error"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<OwnSearchOwner>() {
  static constexpr std::array kFields = {tag<"own">()};
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "own"};
  return kSchema;
}

template <>
const Schema& schema_of<AccessibleSearchOwner>() {
  static constexpr std::array kFields = {tag<"accessible">()};
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "accessible"};
  return kSchema;
}

template <>
const Schema& schema_of<UserSearchOwner>() {
  using T = UserSearchOwner;
  static constexpr std::array kFields = {
      tag<"user">(),
      required<&T::owner_urns>("owner_urns"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .tag_name = "type", .tag = "user", .check = check_with<check_owners>};
  return kSchema;
}

template <>
const Schema& schema_of<ActiveSessionStatusQuery>() {
  static constexpr std::array kFields = {tag<"active">()};
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "active"};
  return kSchema;
}

template <>
const Schema& schema_of<CancelledSessionStatusQuery>() {
  static constexpr std::array kFields = {tag<"cancelled">()};
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "cancelled"};
  return kSchema;
}

template <>
const Schema& schema_of<FailedSessionStatusQuery>() {
  static constexpr std::array kFields = {tag<"failed">()};
  static constexpr Schema kSchema = {.fields = kFields, .tag_name = "type", .tag = "failed"};
  return kSchema;
}

template <>
const Schema& schema_of<ClientFinishedSessionStatusQuery>() {
  using T = ClientFinishedSessionStatusQuery;
  static constexpr std::array kFields = {
      tag<"client_finished">(),
      nullable<&T::reasons>("reasons"),
  };
  static constexpr Schema kSchema = {.fields = kFields,
                                     .tag_name = "type",
                                     .tag = "client_finished",
                                     .check = check_with<check_reasons>};
  return kSchema;
}

template <>
const Schema& schema_of<SessionSearchCursor>() {
  using T = SessionSearchCursor;
  static constexpr std::array kFields = {
      required<&T::last_created_at>("last_created_at"),
      required<&T::last_session_id>("last_session_id"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .check = check_with<check_cursor>};
  return kSchema;
}

template <>
const Schema& schema_of<SessionSearchRequest>() {
  using T = SessionSearchRequest;
  static constexpr std::array kFields = {
      nullable<&T::session_id>("session_id"),
      nullable<&T::project_ids>("project_ids"),
      defaulted<&T::user_metadata>("user_metadata"),
      nullable<&T::display_name>("display_name"),
      defaulted<&T::owner>("owner"),
      nullable<&T::statuses>("statuses"),
      defaulted<&T::limit>("limit"),
      nullable<&T::cursor>("cursor"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .check = check_with<check_search>};
  return kSchema;
}

template <>
const Schema& schema_of<SessionActive>() {
  static constexpr std::array kFields = {tag<"active">()};
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "active"};
  return kSchema;
}

template <>
const Schema& schema_of<SessionCancelled>() {
  using T = SessionCancelled;
  static constexpr std::array kFields = {
      tag<"cancelled">(),
      nullable<&T::detail>("detail"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "cancelled"};
  return kSchema;
}

template <>
const Schema& schema_of<ClientSessionFinishSuccess>() {
  static constexpr std::array kFields = {tag<"success">()};
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "success"};
  return kSchema;
}

template <>
const Schema& schema_of<ClientSessionFinishErrored>() {
  static constexpr std::array kFields = {tag<"errored">()};
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "errored"};
  return kSchema;
}

template <>
const Schema& schema_of<ClientSessionFinishInterrupted>() {
  static constexpr std::array kFields = {tag<"interrupted">()};
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "interrupted"};
  return kSchema;
}

template <>
const Schema& schema_of<ClientSessionFinished>() {
  using T = ClientSessionFinished;
  static constexpr std::array kFields = {
      tag<"client_finished">(),
      required<&T::reason>("reason"),
      nullable<&T::detail>("detail"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "client_finished"};
  return kSchema;
}

template <>
const Schema& schema_of<SessionFailedRequestReason>() {
  using T = SessionFailedRequestReason;
  static constexpr std::array kFields = {
      tag<"request">(),
      required<&T::request_id>("request_id"),
      required<&T::request_type>("request_type"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "request"};
  return kSchema;
}

template <>
const Schema& schema_of<SessionFailedTrainingRunReason>() {
  using T = SessionFailedTrainingRunReason;
  static constexpr std::array kFields = {
      tag<"training_run">(),
      required<&T::training_run_id>("training_run_id"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "training_run"};
  return kSchema;
}

template <>
const Schema& schema_of<SessionFailedSamplingSessionReason>() {
  using T = SessionFailedSamplingSessionReason;
  static constexpr std::array kFields = {
      tag<"sampling_session">(),
      required<&T::sampling_session_id>("sampling_session_id"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "sampling_session"};
  return kSchema;
}

template <>
const Schema& schema_of<SessionFailed>() {
  using T = SessionFailed;
  static constexpr std::array kFields = {
      tag<"failed">(),
      required<&T::category>("category"),
      required<&T::reason>("reason"),
      required<&T::message>("message"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "failed"};
  return kSchema;
}

template <>
const Schema& schema_of<SessionSummary>() {
  using T = SessionSummary;
  static constexpr std::array kFields = {
      required<&T::session_id>("session_id"),
      required<&T::created_at>("created_at"),
      required<&T::owner>("owner"),
      required<&T::project_id>("project_id"),
      nullable<&T::status>("status"),
      required<&T::checkpoints_count>("checkpoints_count"),
      nullable<&T::display_name>("display_name"),
      nullable<&T::user_metadata>("user_metadata"),
      nullable<&T::checkpoint_storage_bytes>("checkpoint_storage_bytes"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SessionSearchResponse>() {
  using T = SessionSearchResponse;
  static constexpr std::array kFields = {
      required<&T::sessions>("sessions"),
      nullable<&T::next_cursor>("next_cursor"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CheckpointSearchCursor>() {
  using T = CheckpointSearchCursor;
  static constexpr std::array kFields = {
      required<&T::last_created_at>("last_created_at"),
      required<&T::last_checkpoint_uuid>("last_checkpoint_uuid"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .check = check_with<check_checkpoint_cursor>};
  return kSchema;
}

template <>
const Schema& schema_of<CheckpointSearchRequest>() {
  using T = CheckpointSearchRequest;
  static constexpr std::array kFields = {
      nullable<&T::project_ids>("project_ids"),
      defaulted<&T::user_metadata>("user_metadata"),
      nullable<&T::checkpoint_type>("checkpoint_type"),
      defaulted<&T::owner>("owner"),
      nullable<&T::base_models>("base_models"),
      defaulted<&T::limit>("limit"),
      nullable<&T::cursor>("cursor"),
  };
  static constexpr Schema kSchema = {.fields = kFields,
                                     .check = check_with<check_checkpoint_search>};
  return kSchema;
}

template <>
const Schema& schema_of<CheckpointSearchResponse>() {
  using T = CheckpointSearchResponse;
  static constexpr std::array kFields = {
      required<&T::checkpoints>("checkpoints"),
      nullable<&T::next_cursor>("next_cursor"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<UntypedApiFuture>() {
  using T = UntypedApiFuture;
  static constexpr std::array kFields = {
      required<&T::request_id>("request_id"),
      nullable<&T::model_id>("model_id"),
      nullable<&T::sample_sequence_ids>("sample_sequence_ids"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<FutureRetrieveRequest>() {
  using T = FutureRetrieveRequest;
  static constexpr std::array kFields = {
      required<&T::request_id>("request_id"),
      defaulted<&T::allow_metadata_only>("allow_metadata_only"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<TryAgainResponse>() {
  using T = TryAgainResponse;
  static constexpr std::array kFields = {
      tag<"try_again">(),
      required<&T::request_id>("request_id"),
      required<&T::queue_state>("queue_state"),
      nullable<&T::queue_state_reason>("queue_state_reason"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CompleteMetadataResponse>() {
  using T = CompleteMetadataResponse;
  static constexpr std::array kFields = {
      constant<"complete_metadata">("status"),
      nullable<&T::response_payload_size>("response_payload_size"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<RequestFailedResponse>() {
  using T = RequestFailedResponse;
  static constexpr std::array kFields = {
      required<&T::error>("error"),
      required<&T::category>("category"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ErrorResponse>() {
  using T = ErrorResponse;
  static constexpr std::array kFields = {required<&T::detail>("detail")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CancelFutureRequest>() {
  using T = CancelFutureRequest;
  static constexpr std::array kFields = {required<&T::request_id>("request_id")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<SamplingSessionFuturesTarget>() {
  using T = SamplingSessionFuturesTarget;
  static constexpr std::array kFields = {
      tag<"sampling_session">(),
      required<&T::sampling_session_id>("sampling_session_id"),
      defaulted<&T::cloned_sampler_id>("cloned_sampler_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<FuturesRetrieveRequest>() {
  using T = FuturesRetrieveRequest;
  static constexpr std::array kFields = {
      required<&T::target>("target"),
      defaulted<&T::prev_cursor>("prev_cursor"),
      nullable<&T::timeout>("timeout"),
      defaulted<&T::retrieved_request_ids>("retrieved_request_ids"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<FutureFinished>() {
  using T = FutureFinished;
  static constexpr std::array kFields = {
      tag<"finished">("state"),
      required<&T::request_id>("request_id"),
      nullable<&T::response_payload_uncompressed_size>("response_payload_uncompressed_size"),
  };
  static constexpr Schema kSchema = {.fields = kFields,
                                     .members = Members::open,
                                     .tag_name = "state",
                                     .tag = "finished",
                                     .tag_required = true};
  return kSchema;
}

template <>
const Schema& schema_of<FutureFailed>() {
  using T = FutureFailed;
  static constexpr std::array kFields = {
      tag<"failed">("state"),
      required<&T::request_id>("request_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields,
                                     .members = Members::open,
                                     .tag_name = "state",
                                     .tag = "failed",
                                     .tag_required = true};
  return kSchema;
}

template <>
const Schema& schema_of<FuturesRetrieveResponse>() {
  using T = FuturesRetrieveResponse;
  static constexpr std::array kFields = {
      required<&T::completions>("completions"),
      required<&T::cursor>("cursor"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

}  // namespace tinker::wire
