#include "server/endpoints.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/bodies.h"
#include "server/browser_check.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "wire/json.h"
#include "wire/proto.h"
#include "wire/query.h"
#include "wire/request_number.h"

namespace tinker::server {

namespace {

using http::Method;

// Bodies at least this long are decoded by a worker.
constexpr std::size_t kLargeBody = std::size_t{64} << 10U;

/// Who may call an endpoint.
enum class Gate {
  key,    ///< Who has a key.
  link,   ///< Who has a link that we signed.
  open,   ///< Everybody.
  local,  ///< Everybody on this machine; where others reach the server, who has a key.
};

using Handle = async::Task<Reply> (*)(Call call, std::string body);

struct Endpoint {
  Method method;
  std::string_view path;  ///< Below /api/v1/, or from the root; {names} stand for one segment each.
  Handle handle;
  Gate gate = Gate::key;
  /// Begins something that takes time: a server that is to stop refuses it, and its repeats are
  /// known by the hash of their body.
  bool is_work = false;
  bool is_training = false;    ///< Its bodies may be as large as training data are.
  bool is_journalled = false;  ///< What it asks for is done again after a crash.
  bool is_streamed = false;    ///< Its handler reads the body, which is no document, by itself.
};

// ---- from functions of handlers.h to rows

template <typename T>
constexpr bool kIsReply = std::is_same_v<T, Reply>;

/// What a handler returned, as it goes on the wire.
template <typename Answer>
Result<Reply> encode(Answer value) {
  if constexpr (kIsReply<Answer>) {
    return value;
  } else {
    TINKER_TRY(std::string json, wire::encode_json(value));
    return Reply{.body = std::move(json)};
  }
}

/// How a request says what it asks for.
enum class Form { query, json, protobuf };

/// Training data are protobuf unless they say that they are JSON, as those of SDK 0.24 do
/// (PROTOCOL 11).
template <typename Request>
Form form_of(const Call& call) {
  if constexpr (std::is_same_v<Request, ForwardBackwardRequest>) {
    return call.header("content-type").starts_with("application/json") ? Form::json
                                                                       : Form::protobuf;
  } else {
    const bool is_get = !call.source.is_replay && call.request.method() == Method::get;
    return is_get ? Form::query : Form::json;
  }
}

template <typename Request>
Result<Request> decode(Form form, std::string_view query, std::string body) {
  const wire::DecodeOptions lenient = {.policy = wire::Policy::lenient};
  if constexpr (std::is_same_v<Request, ForwardBackwardRequest>) {
    if (form == Form::protobuf) return wire::decode_proto<Request>(std::move(body), lenient);
  } else {
    if (form == Form::query) return wire::decode_query<Request>(query, lenient);
  }
  return wire::decode_json<Request>(body, lenient);
}

/// The operation's name in its run, for requests that carry a sequence number; empty for others.
template <typename Request>
constexpr std::string_view kOperation = {};
template <>
constexpr std::string_view kOperation<ForwardBackwardRequest> = "forward_backward";
template <>
constexpr std::string_view kOperation<OptimStepRequest> = "optim_step";
template <>
constexpr std::string_view kOperation<SaveWeightsRequest> = "save_weights";
template <>
constexpr std::string_view kOperation<SaveWeightsForSamplerRequest> = "save_weights_for_sampler";
template <>
constexpr std::string_view kOperation<SaveWeightsExternalRequest> = "save_weights_external";
template <>
constexpr std::string_view kOperation<LoadWeightsRequest> = "load_weights";

/// A decoded body, or the error, and then the number of the request if that can be read all the
/// same.
template <typename Request>
struct Decoded {
  Result<Request> request;
  std::optional<wire::RequestNumber> number = {};
};

template <typename Request>
Decoded<Request> decode_numbered(Form form, std::string_view query, std::string body) {
  if constexpr (kOperation<Request>.empty()) {
    return {.request = decode<Request>(form, query, std::move(body))};
  } else {
    std::optional<wire::RequestNumber> number;
    if (form == Form::protobuf) {
      number = wire::proto_request_number(body);
      return {.request = decode<Request>(form, query, std::move(body)),
              .number = std::move(number)};
    }
    auto request = decode<Request>(form, query, body);
    if (!request.ok()) number = wire::json_request_number(body);
    return {.request = std::move(request), .number = std::move(number)};
  }
}

template <typename Request>
async::Task<Decoded<Request>> read_request(Call call, std::string body) {
  const Form form = form_of<Request>(call);
  if (body.size() < kLargeBody) {
    const auto query = form == Form::query ? call.request.query() : std::string_view();
    co_return decode_numbered<Request>(form, query, std::move(body));
  }
  // Nothing of the request goes to the worker but its body: the rest belongs to the loop.
  auto decoded = call.service->work([form, body = std::move(body)]() mutable {
    return Result<Decoded<Request>>(decode_numbered<Request>(form, {}, std::move(body)));
  });
  auto wait = async::until(std::move(decoded));
  co_return co_await wait;
}

/// Whether the caller may begin one more request of a run. A repeat, and one that others of its run
/// wait for, are always let in: nothing that was accepted waits for what is kept out.
Result<void> check_room(const Call& call,
                        const std::string& model_id,
                        std::optional<std::int64_t> seq_id,
                        std::size_t bytes) {
  const auto run = call.service->find_run(model_id, call.caller.owner);
  if (!run.ok() || (seq_id && (*run)->expects(*seq_id))) return {};
  auto room = call.service->check_room(call.caller.owner, bytes);
  // Clients send the first chunk of a batch when all others were accepted.
  if (!room.ok()) (*run)->stop_waiting();
  return room;
}

/// The same for what was decoded; requests of no run pass.
template <typename Request>
Result<void> check_room(const Call& call, const Decoded<Request>& decoded, std::size_t bytes) {
  if constexpr (!kOperation<Request>.empty()) {
    if (call.source.is_replay) return {};
    if (decoded.request.ok()) {
      const std::optional<std::string> model_id = decoded.request->model_id;
      return check_room(call, model_id.value_or(""), decoded.request->seq_id, bytes);
    }
    if (decoded.number) {
      return check_room(call, decoded.number->model_id, decoded.number->seq_id, bytes);
    }
  }
  return {};
}

template <auto kHandler, typename Signature = decltype(kHandler)>
struct Row;

template <auto kHandler, typename Answer>
struct Row<kHandler, async::Task<Answer> (*)(Call)> {
  static async::Task<Reply> handle(Call call, std::string) {
    auto task = kHandler(std::move(call));
    if constexpr (std::is_void_v<Answer>) {
      TINKER_CO_TRY(co_await std::move(task));
      co_return Reply{.body = "{}"};
    } else {
      TINKER_CO_TRY(auto value, co_await std::move(task));
      co_return encode(std::move(value));
    }
  }
};

template <auto kHandler, typename Answer, typename Request>
struct Row<kHandler, async::Task<Answer> (*)(Call, Request)> {
  static async::Task<Reply> handle(Call call, std::string body) {
    const std::size_t bytes = body.size();
    auto reading = read_request<Request>(call, std::move(body));
    TINKER_CO_TRY(auto decoded, co_await std::move(reading));
    TINKER_CO_TRY(check_room(call, decoded, bytes));
    if constexpr (std::is_same_v<Request, ForwardBackwardRequest>) {
      call.charge = call.service->charge(call.caller.owner, bytes);
    }
    if (!decoded.request.ok()) {
      Error why = std::move(decoded.request).error();
      if (!decoded.number) co_return why;
      auto refusing = refuse_in_order(
          std::move(call), kOperation<Request>, *std::move(decoded.number), std::move(why));
      TINKER_CO_TRY(auto future, co_await std::move(refusing));
      co_return encode(std::move(future));
    }
    auto task = kHandler(std::move(call), *std::move(decoded.request));
    if constexpr (std::is_void_v<Answer>) {
      TINKER_CO_TRY(co_await std::move(task));
      co_return Reply{.body = "{}"};
    } else {
      TINKER_CO_TRY(auto value, co_await std::move(task));
      co_return encode(std::move(value));
    }
  }
};

template <auto kHandler>
constexpr Endpoint row(Method method, std::string_view path, Gate gate = Gate::key) {
  return {.method = method, .path = path, .handle = &Row<kHandler>::handle, .gate = gate};
}

constexpr Endpoint work(Endpoint endpoint) {
  endpoint.is_work = true;
  return endpoint;
}

constexpr Endpoint journalled(Endpoint endpoint) {
  endpoint.is_journalled = true;
  return endpoint;
}

constexpr Endpoint streamed(Endpoint endpoint) {
  endpoint.is_streamed = true;
  return endpoint;
}

constexpr Endpoint training(Endpoint endpoint) {
  endpoint.is_training = true;
  return work(journalled(endpoint));
}

/// Every endpoint. Request and answer types are those of the handler.
constexpr std::array kEndpoints = {
    row<client_config>(Method::post, "client/config"),
    row<dynamic_config>(Method::post, "client/dynamic_config"),
    row<exchange_token>(Method::post, "auth/token"),
    row<own_key>(Method::get, "auth/apikey/me"),
    row<revoke_own_key>(Method::delete_, "auth/apikey/me"),
    row<healthz>(Method::get, "healthz", Gate::open),
    row<capabilities>(Method::get, "get_server_capabilities"),
    row<telemetry>(Method::post, "telemetry"),
    row<metrics>(Method::get, "/metrics", Gate::local),
    // Sessions.
    work(row<create_session>(Method::post, "create_session")),
    row<heartbeat>(Method::post, "session_heartbeat"),
    row<finish_session>(Method::post, "sessions/{id}/finish"),
    row<list_sessions>(Method::get, "sessions"),
    row<search_sessions>(Method::post, "sessions/search"),
    row<get_session>(Method::get, "sessions/{id}"),
    row<set_project>(Method::put, "sessions/{id}/project"),
    row<trace_export>(Method::get, "sessions/{id}/trace_export"),
    // Training.
    work(journalled(row<create_model>(Method::post, "create_model"))),
    row<get_info>(Method::post, "get_info"),
    journalled(row<unload_model>(Method::post, "unload_model")),
    training(row<forward_backward>(Method::post, "forward_backward")),
    training(row<forward>(Method::post, "forward")),
    work(journalled(row<optim_step>(Method::post, "optim_step"))),
    work(journalled(row<create_custom_loss>(Method::post, "create_custom_loss"))),
    work(journalled(row<save_weights>(Method::post, "save_weights"))),
    work(journalled(row<save_for_sampler>(Method::post, "save_weights_for_sampler"))),
    work(journalled(row<save_external>(Method::post, "save_weights_external"))),
    work(journalled(row<load_weights>(Method::post, "load_weights"))),
    // Sampling.
    work(row<create_sampling_session>(Method::post, "create_sampling_session")),
    row<join_sampling_session>(Method::post, "join_sampling_session"),
    row<get_sampler>(Method::get, "samplers/{id}"),
    work(row<sample>(Method::post, "asample")),
    // Results.
    row<retrieve_future>(Method::post, "retrieve_future"),
    row<retrieve_futures>(Method::post, "retrieve_futures"),
    row<cancel_future>(Method::post, "cancel_future"),
    // Runs and checkpoints.
    row<list_training_runs>(Method::get, "training_runs"),
    row<get_training_run>(Method::get, "training_runs/{run}"),
    row<checkpoints_of_run>(Method::get, "training_runs/{run}/checkpoints"),
    row<delete_checkpoint>(Method::delete_, "training_runs/{run}/checkpoints/{kind}/{name}"),
    row<publish_checkpoint>(Method::post, "training_runs/{run}/checkpoints/{kind}/{name}/publish"),
    row<unpublish_checkpoint>(Method::delete_,
                              "training_runs/{run}/checkpoints/{kind}/{name}/publish"),
    row<set_ttl>(Method::put, "training_runs/{run}/checkpoints/{kind}/{name}/ttl"),
    row<archive_link>(Method::get, "training_runs/{run}/checkpoints/{kind}/{name}/archive"),
    row<external_links>(Method::get,
                        "training_runs/{run}/checkpoints/{kind}/{name}/external_weights_urls"),
    row<list_checkpoints>(Method::get, "checkpoints"),
    row<search_checkpoints>(Method::post, "checkpoints/search"),
    row<weights_info>(Method::post, "weights_info"),
    row<copy_weights>(Method::post, "copy_weights"),
    row<archive>(Method::get, "download/{run}/{kind}/{name}/archive.tar", Gate::link),
    row<external_file>(Method::get, "download/{run}/{kind}/{name}/files/{file}", Gate::link),
    work(row<upload_start>(Method::post, "external_weights_upload_start")),
    streamed(row<upload_file>(Method::put, "upload/{upload}/{file}", Gate::link)),
    row<upload_finish>(Method::post, "external_weights_upload_finish"),
    // Accounts.
    row<audit_log>(Method::get, "audit"),
    row<billing_usage>(Method::get, "billing/usage/events"),
    row<storage_usage>(Method::get, "billing/usage/checkpoints/current"),
};

// ---- finding a row

constexpr std::string_view kPrefix = "/api/v1/";

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// One segment of a path with its %XX resolved; an escape that is none stays as it is.
std::string unescape(std::string_view segment) {
  std::string out;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] == '%' && i + 2 < segment.size() && hex_digit(segment[i + 1]) >= 0 &&
        hex_digit(segment[i + 2]) >= 0) {
      out += static_cast<char>(hex_digit(segment[i + 1]) * 16 + hex_digit(segment[i + 2]));
      i += 2;
    } else {
      out += segment[i];
    }
  }
  return out;
}

/// Whether `path` has the form of `pattern`; what stands for its {names} is added to `args`.
bool matches(std::string_view pattern, std::string_view path, std::vector<std::string>& args) {
  args.clear();
  while (true) {
    const auto wanted = pattern.substr(0, pattern.find('/'));
    const auto found = path.substr(0, path.find('/'));
    if (wanted.starts_with('{')) {
      if (found.empty()) return false;
      args.push_back(unescape(found));
    } else if (wanted != found) {
      return false;
    }
    const bool is_last = wanted.size() == pattern.size();
    if (is_last != (found.size() == path.size())) return false;
    if (is_last) return true;
    pattern.remove_prefix(wanted.size() + 1);
    path.remove_prefix(found.size() + 1);
  }
}

struct Found {
  const Endpoint* endpoint = nullptr;
  std::vector<std::string> args = {};
  bool is_other_method = false;  ///< The path is there, but not for this method.
};

Found find_endpoint(Method method, std::string_view path) {
  Found out;
  if (path.starts_with(kPrefix)) path.remove_prefix(kPrefix.size());
  const Method wanted = method == Method::head ? Method::get : method;
  for (const auto& endpoint : kEndpoints) {
    if (!matches(endpoint.path, path, out.args)) continue;
    if (endpoint.method == wanted) {
      out.endpoint = &endpoint;
      return out;
    }
    out.is_other_method = true;
  }
  return out;
}

// ---- answering

Reply error_reply(const Error& error) {
  const int status = status_of(error);
  auto json = wire::encode_json(ErrorResponse{.detail = error.to_string()});
  Reply out = {.status = status,
               .body = json.ok() ? *std::move(json) : R"({"detail":"the request failed"})"};
  if (status == 429 || status == 503) out.headers.add("retry-after", "1");
  return out;
}

Result<Caller> check_caller(const Service& service, const http::ServerRequest& request, Gate gate) {
  const auto header = [&](std::string_view name) {
    return request.headers().find(name).value_or(std::string_view());
  };
  const ServiceOptions& options = service.options();
  TINKER_TRY(
      check_browser(header("host"), header("origin"), options.is_loopback, options.public_origin));
  if (gate == Gate::open) return Caller();
  if (gate == Gate::link) {
    TINKER_TRY(service.access.check_link(request.target(), service.now()));
    return Caller();
  }
  auto credential = header("x-api-key");
  if (gate == Gate::local) {
    if (options.is_local) return Caller();
    constexpr std::string_view kBearer = "Bearer ";  // what monitors send
    if (header("authorization").starts_with(kBearer)) {
      credential = header("authorization").substr(kBearer.size());
    }
  }
  return service.access.authenticate(credential, service.now());
}

/// Bodies are JSON or protobuf; one that says nothing of itself is taken for what the endpoint
/// reads.
Result<void> check_content_type(const http::ServerRequest& request) {
  auto type = request.headers().find("content-type").value_or(std::string_view());
  type = type.substr(0, type.find_first_of("; "));
  if (type.empty() || type == "application/json" || type == "application/x-protobuf") return {};
  return Error{
      .code = ErrorCode::unexpected_status,
      .message = base::concat(
          "Content-Type: expected application/json or application/x-protobuf, found '", type, "'"),
      .http_status = 415};
}

async::Task<Reply> dispatch(std::shared_ptr<Service> service,
                            http::ServerRequest request,
                            http::ResponseWriter writer,
                            Found found) {
  if (found.endpoint == nullptr) {
    const auto what = base::concat(http::to_string(request.method()), " ", request.path());
    if (found.is_other_method) {
      co_return Error{.code = ErrorCode::unexpected_status,
                      .message = base::concat("there is no ", what, ", but another method"),
                      .http_status = 405};
    }
    co_return no_such("endpoint", what);
  }
  if (found.endpoint->is_work && service->is_draining()) {
    co_return Error{.code = ErrorCode::closed, .message = "the server is shutting down"};
  }
  auto checked = check_caller(*service, request, found.endpoint->gate);
  if (!checked.ok()) {
    if (checked.error().code == ErrorCode::unauthenticated)
      service->note_refused_key(request.peer());
    co_return std::move(checked).error();
  }
  Caller caller = *std::move(checked);
  if (found.endpoint->is_streamed) {
    auto handling = found.endpoint->handle({.service = service,
                                            .request = request,
                                            .writer = writer,
                                            .caller = std::move(caller),
                                            .args = found.args},
                                           {});
    co_return co_await std::move(handling);
  }
  TINKER_CO_TRY(check_content_type(request));
  const auto& limits = service->options().limits;
  const std::size_t limit = found.endpoint->is_training ? limits.training_bytes : limits.json_bytes;
  const auto incoming = std::make_shared<IncomingBody>(service, caller.owner);
  auto receiving = receive_body(service, incoming, request, limit, found.endpoint->is_work);
  TINKER_CO_TRY(auto body, co_await std::move(receiving));
  Call call = {.service = service,
               .request = request,
               .writer = writer,
               .caller = std::move(caller),
               .args = found.args,
               .payload_hash = std::move(body.hash)};
  if (service->journals && found.endpoint->is_journalled) {
    call.source = {.body = std::make_shared<const std::string>(body.bytes),
                   .content_type = std::string(call.header("content-type"))};
  }
  auto handling = found.endpoint->handle(std::move(call), std::move(body.bytes));
  co_return co_await std::move(handling);
}

}  // namespace

async::Task<> replay(Call call, std::string type, std::string body) {
  for (const auto& endpoint : kEndpoints) {
    if (!endpoint.is_journalled || endpoint.path != type) continue;
    auto handling = endpoint.handle(std::move(call), std::move(body));
    TINKER_CO_TRY(co_await std::move(handling));
    co_return Result<void>();
  }
  co_return no_such("journalled endpoint", type);
}

int status_of(const Error& error) noexcept {
  if (error.http_status != 0 && error.http_status != 409) return error.http_status;
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::bad_request:
    case ErrorCode::conflict:  // clients repeat a 409 for five minutes
    case ErrorCode::request_failed: return 400;
    case ErrorCode::unauthenticated: return 401;
    case ErrorCode::permission_denied: return 403;
    case ErrorCode::not_found: return 404;
    case ErrorCode::expired: return 410;
    case ErrorCode::unprocessable:
    case ErrorCode::invalid_response: return 422;
    case ErrorCode::rate_limited: return 429;
    case ErrorCode::closed:
    case ErrorCode::cancelled: return 503;
    default: return 500;
  }
}

async::Task<> answer(std::shared_ptr<Service> service,
                     http::ServerRequest request,
                     http::ResponseWriter writer) {
  const auto begin = service->loop()->now();
  auto found = find_endpoint(request.method(), request.path());
  const std::string_view endpoint = found.endpoint != nullptr ? found.endpoint->path : "other";
  auto handling = dispatch(service, request, writer, std::move(found));
  auto result = co_await std::move(handling);
  if (!result.ok() && status_of(result.error()) == 500) {
    service->options().logger.write(LogLevel::error,
                                    base::concat(http::to_string(request.method()),
                                                 " ",
                                                 request.path(),
                                                 ": ",
                                                 result.error().to_string()));
  }
  Reply reply = result.ok() ? *std::move(result) : error_reply(result.error());
  service->requests.add(endpoint, reply.status, service->loop()->now() - begin);
  if (reply.is_streamed) co_return Result<void>();
  if (!reply.headers.contains("content-type"))
    reply.headers.add("content-type", reply.content_type);
  const std::string delivered = std::move(reply.delivered_id);
  writer.send(
      {.status = reply.status, .headers = std::move(reply.headers), .body = std::move(reply.body)});
  if (!delivered.empty()) service->futures.delivered(delivered);
  co_return Result<void>();
}

std::vector<EndpointName> endpoint_names() {
  std::vector<EndpointName> out;
  out.reserve(kEndpoints.size());
  for (const auto& endpoint : kEndpoints) {
    out.push_back({.method = endpoint.method, .path = endpoint.path});
  }
  return out;
}

}  // namespace tinker::server
