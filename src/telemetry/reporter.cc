#include "telemetry/reporter.h"

#include <array>
#include <deque>
#include <optional>
#include <ranges>
#include <utility>
#include <variant>
#include <vector>

#include "base/logging.h"
#include "base/strings.h"
#include "telemetry/report_data.h"
#include "tinker/version.h"
#include "wire/json.h"

namespace tinker::telemetry {

using async::Task;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

namespace {

// R14.2
constexpr std::size_t kMaxBatch = 100;
constexpr std::size_t kMaxQueue = 10'000;
constexpr std::chrono::seconds kFlushInterval{10};
constexpr std::chrono::seconds kRequestTimeout{5};
constexpr std::chrono::seconds kPauseAfterFailure{1};  // R14.8
// Beyond the official limit, which counts events only.
constexpr std::size_t kMaxQueueBytes = std::size_t{16} << 20U;
constexpr std::chrono::seconds kWarningInterval{60};

constexpr std::string_view kEndpoint = "/api/v1/telemetry";

std::string_view platform() noexcept {
#if defined(__linux__)
  return "Linux";
#elif defined(__APPLE__)
  return "Darwin";
#elif defined(__FreeBSD__)
  return "FreeBSD";
#elif defined(_WIN32)
  return "Windows";
#else
  return "";
#endif
}

/// R14.5, but one per runtime: there may be several in a process, and none survives a fork.
struct ProcessId {
  std::string uuid;
};

std::size_t bytes_of_event(const TelemetryEvent& event) {
  std::size_t bytes = sizeof(TelemetryEvent);
  if (const auto* generic = std::get_if<GenericEvent>(&event)) {
    for (const auto& [name, value] : generic->event_data) bytes += name.size() + bytes_of(value);
  } else if (const auto* exception = std::get_if<UnhandledExceptionEvent>(&event)) {
    bytes += exception->error_message.size();
    if (exception->traceback) bytes += exception->traceback->size();
  }
  return bytes;
}

/// What was being done, outermost first, then what went wrong: the nearest that C++ has to a stack.
std::string trace_of(const Error& error, std::string_view operation) {
  std::string out = base::concat("in ", operation, "\n");
  for (const auto& what : std::views::reverse(error.context)) {
    out += base::concat("in ", what, "\n");
  }
  return out + base::concat(error_type(error), ": ", error.message);
}

}  // namespace

bool is_enabled_by(const char* value) noexcept {
  if (value == nullptr) return true;
  const std::string_view text = value;
  return text == "1" || http::same_name(text, "true") || http::same_name(text, "yes") ||
         http::same_name(text, "on");
}

bool is_user_error(const Error& error) noexcept {
  if (error.category == RequestErrorCategory::user) return true;
  return error.http_status >= 400 && error.http_status < 500 && error.http_status != 408;
}

/// Shared by the handle and the task that sends, so that either may go first.
struct Reporter::State {
  std::shared_ptr<async::RuntimeCore> core;
  std::shared_ptr<api::ApiClient> api;
  std::shared_ptr<api::TokenProvider> tokens;
  bool has_session = false;
  std::string session_id;
  std::string process_uuid;
  async::TimePoint started = {};
  std::shared_ptr<async::Scope> scope = {};  // of the task that sends; null before it runs

  struct Queued {
    TelemetryEvent event;
    std::size_t bytes = 0;
  };
  std::deque<Queued> queue = {};
  std::size_t queue_bytes = 0;
  std::size_t in_flight = 0;  // taken out of the queue, not yet accepted
  std::int64_t next_index = 0;

  bool accepts = true;  // false: off, draining or stopped
  bool is_flush_due = false;
  bool has_timer = false;
  bool is_failing = false;  // since the last batch that went through
  async::Signal changed = {};
  std::optional<async::TimePoint> last_warning = {};
  std::size_t dropped_since_warning = 0;

  [[nodiscard]] bool is_open() const noexcept {
    return accepts && !(scope && scope->is_cancelled());
  }
  [[nodiscard]] std::size_t unsent() const noexcept { return queue.size() + in_flight; }
  [[nodiscard]] DataCleaner cleaner() const {
    return DataCleaner([this](const std::string& text) { return api->redact(text); });
  }
  [[nodiscard]] DateTime timestamp() const {
    return {std::chrono::floor<microseconds>(core->clock().wall_time())};
  }
  template <typename E>
  E stamped(E event) {
    event.event_id = core->uuid4();
    event.event_session_index = next_index++;
    event.timestamp = timestamp();
    return event;
  }
  TelemetryEvent session_end();
  TelemetryEvent exception_event(const Error& error, std::string_view operation);

  void add(const std::shared_ptr<State>& self, std::vector<TelemetryEvent> events);
  void drop(std::size_t count, std::string_view reason);
  void flush();
  void stop();
  std::vector<TelemetryEvent> take_batch();

  static void start_sending(const std::shared_ptr<State>& self,
                            std::shared_ptr<async::Scope> parent);
  static Task<> send_when_due(std::shared_ptr<State> self);
  static Task<> send_queue(std::shared_ptr<State> self);
  static Task<> send_until_accepted(std::shared_ptr<State> self, http::Body body);
  static Task<> send(std::shared_ptr<State> self, http::Body body);
  static Task<> drain(std::shared_ptr<State> state, nanoseconds limit);
  static Task<> wait_until_sent(std::shared_ptr<State> self, nanoseconds limit);
};

TelemetryEvent Reporter::State::session_end() {
  auto event = stamped(SessionEndEvent());
  event.duration =
      python_duration(std::chrono::duration_cast<microseconds>(core->loop()->now() - started));
  return event;
}

TelemetryEvent Reporter::State::exception_event(const Error& error, std::string_view operation) {
  const DataCleaner clean = cleaner();
  if (!is_user_error(error)) {
    return stamped(UnhandledExceptionEvent{
        .error_message = clean.text(error.to_string()),
        .error_type = std::string(error_type(error)),
        .traceback = clean.text(trace_of(error, operation)),
    });
  }
  JsonObject data = {{"error_type", error_type(error)}};
  if (auto message = error.to_string(); !message.empty()) {
    data.emplace_back("message", std::move(message));
  }
  if (error.http_status != 0) data.emplace_back("status_code", error.http_status);
  if (Json body = body_of(error); !body.is_null()) data.emplace_back("body", std::move(body));
  return stamped(GenericEvent{.event_name = "user_error",
                              .severity = Severity::warning,
                              .event_data = clean.object(std::move(data))});
}

/// All of them or none (R14.3).
void Reporter::State::add(const std::shared_ptr<State>& self, std::vector<TelemetryEvent> events) {
  std::size_t bytes = 0;
  for (const auto& event : events) bytes += bytes_of_event(event);
  if (queue.size() + events.size() > kMaxQueue || queue_bytes + bytes > kMaxQueueBytes) {
    return drop(events.size(), "the queue is full");
  }
  for (auto& event : events) {
    const std::size_t size = bytes_of_event(event);
    queue_bytes += size;
    queue.push_back({.event = std::move(event), .bytes = size});
  }
  if (has_timer) return;
  has_timer = true;
  core->loop()->schedule_after(kFlushInterval, [weak = std::weak_ptr(self)] {
    const auto alive = weak.lock();
    if (!alive) return;
    alive->has_timer = false;
    alive->flush();
  });
}

void Reporter::State::drop(std::size_t count, std::string_view reason) {
  const std::array fields = {EventField{.name = "count", .value = static_cast<std::int64_t>(count)},
                             EventField{.name = "reason", .value = std::string(reason)}};
  core->events().publish({.name = "telemetry.dropped",
                          .level = LogLevel::warn,
                          .message = "telemetry events were dropped",
                          .session_id = session_id,
                          .fields = fields});
  dropped_since_warning += count;
  const auto now = core->loop()->now();
  if (last_warning && now - *last_warning < kWarningInterval) return;
  last_warning = now;
  TINKER_LOG(
      core->logger(), warn, "telemetry: dropped ", dropped_since_warning, " events: ", reason);
  dropped_since_warning = 0;
}

void Reporter::State::flush() {
  is_flush_due = true;
  changed.notify_all();
}

void Reporter::State::stop() {
  accepts = false;
  queue.clear();
  queue_bytes = 0;
  in_flight = 0;
  if (scope) {
    scope->cancel({.code = ErrorCode::closed, .message = "telemetry has ended"});
    scope->detach();  // the last owner may let go of it on any thread
  }
  changed.notify_all();
}

std::vector<TelemetryEvent> Reporter::State::take_batch() {
  std::vector<TelemetryEvent> events;
  while (!queue.empty() && events.size() < kMaxBatch) {
    queue_bytes -= queue.front().bytes;
    events.push_back(std::move(queue.front().event));
    queue.pop_front();
  }
  return events;
}

void Reporter::State::start_sending(const std::shared_ptr<State>& self,
                                    std::shared_ptr<async::Scope> parent) {
  self->scope = std::make_shared<async::Scope>();
  self->scope->attach(std::move(parent));
  // Nobody waits for it: it ends with its scope.
  static_cast<void>(self->core->spawn(self->scope, send_when_due(self)));
}

Task<> Reporter::State::send_when_due(std::shared_ptr<State> self) {
  auto result = Result<void>();
  while (result.ok()) {
    if (self->is_flush_due) {
      self->is_flush_due = false;
      auto sending = send_queue(self);
      result = co_await std::move(sending);
    } else {
      auto wait = self->changed.wait();
      result = co_await wait;
    }
  }
  self->stop();  // its scope ended: nothing queued from now on would ever go
  co_return result;
}

Task<> Reporter::State::send_queue(std::shared_ptr<State> self) {
  while (!self->queue.empty()) {
    const TelemetrySendRequest request = {.events = self->take_batch(),
                                          .platform = std::string(platform()),
                                          .sdk_version = std::string(protocol_version()),
                                          .session_id = self->session_id,
                                          .process_uuid = self->process_uuid};
    auto text = wire::encode_json(request);
    if (!text.ok()) {
      // What the cleaner lets through can be encoded; if not, one batch is lost, not all to come.
      self->drop(request.events.size(), text.error().message);
      continue;
    }
    self->in_flight = request.events.size();
    auto body = std::make_shared<const std::string>(*std::move(text));
    auto sending = send_until_accepted(self, std::move(body));
    TINKER_CO_TRY(co_await std::move(sending));
    self->in_flight = 0;
    self->changed.notify_all();
  }
  co_return Result<void>();
}

/// For ever, with pauses, whatever the error (R14.8). Only the end of the scope ends it.
Task<> Reporter::State::send_until_accepted(std::shared_ptr<State> self, http::Body body) {
  for (std::int64_t attempt = 0;; ++attempt) {
    auto sending = send(self, body);
    const auto result = co_await std::move(sending);
    if (result.ok()) break;
    if (self->scope->is_cancelled()) co_return self->scope->reason();
    const Error& error = result.error();
    self->core->events().publish({.name = "telemetry.batch_failed",
                                  .message = error.message,
                                  .endpoint = kEndpoint,
                                  .session_id = self->session_id,
                                  .http_status = error.http_status,
                                  .error = error.code,
                                  .attempt = attempt});
    if (!std::exchange(self->is_failing, true)) {
      TINKER_LOG(self->core->logger(),
                 warn,
                 "telemetry: a batch could not be sent, trying again: ",
                 error.to_string());
    }
    auto pause = async::sleep_for(kPauseAfterFailure);
    TINKER_CO_TRY(co_await pause);
  }
  self->is_failing = false;
  co_return Result<void>();
}

Task<> Reporter::State::send(std::shared_ptr<State> self, http::Body body) {
  api::Call call = {.path = std::string(kEndpoint),
                    .body = std::move(body),
                    .pool = api::PoolKind::telemetry,
                    .timeout = kRequestTimeout,
                    .timeout_text = "5.0",
                    .is_guarded = false};
  auto answer = self->api->call(std::move(call), self->tokens);
  TINKER_CO_TRY(const auto response, co_await std::move(answer));
  TINKER_CO_TRY(const auto accepted, wire::decode_json<TelemetryResponse>(response.body));
  static_cast<void>(accepted);
  co_return Result<void>();
}

Task<> Reporter::State::wait_until_sent(std::shared_ptr<State> self, nanoseconds limit) {
  auto is_over = std::make_shared<bool>(false);
  const auto timer =
      self->core->loop()->schedule_after(limit, [is_over, weak = std::weak_ptr(self)] {
        *is_over = true;
        if (const auto alive = weak.lock()) alive->changed.notify_all();
      });
  auto result = Result<void>();
  while (result.ok() && !*is_over && self->unsent() > 0 && !self->scope->is_cancelled()) {
    auto wait = self->changed.wait();
    result = co_await wait;
  }
  self->core->loop()->cancel(timer);
  co_return result;
}

Reporter::Reporter(std::shared_ptr<async::RuntimeCore> core,
                   std::shared_ptr<api::ApiClient> api,
                   std::shared_ptr<api::TokenProvider> tokens,
                   ReporterOptions options)
    : state_(std::make_shared<State>()) {
  State& state = *state_;
  state.core = std::move(core);
  state.api = std::move(api);
  state.tokens = std::move(tokens);
  state.accepts = options.is_enabled;
  state.has_session = !options.session_id.empty();
  state.session_id = state.has_session ? std::move(options.session_id)
                                       : base::concat("sessionless-", state.core->uuid4());
  auto* runtime = state.core.get();
  const auto process = runtime->shared<ProcessId>(
      [runtime] { return std::make_shared<ProcessId>(ProcessId{runtime->uuid4()}); });
  state.process_uuid = process->uuid;
  state.started = runtime->clock().now();
}

void Reporter::start(std::shared_ptr<async::Scope> scope) {
  State& state = *state_;
  if (!state.accepts || state.scope) return;
  state.started = state.core->loop()->now();
  if (state.has_session) state.add(state_, {state.stamped(SessionStartEvent())});
  State::start_sending(state_, std::move(scope));
}

bool Reporter::is_enabled() const noexcept {
  return state_->is_open();
}

void Reporter::generic(std::string_view name, Severity severity, JsonObject data) {
  if (!is_enabled()) return;
  const DataCleaner clean = state_->cleaner();
  state_->add(state_,
              {state_->stamped(GenericEvent{.event_name = clean.text(std::string(name)),
                                            .severity = severity,
                                            .event_data = clean.object(std::move(data))})});
}

void Reporter::exception(const Error& error, std::string_view operation) {
  // A caller that gives up is no failure; the official client's cancellation is no Exception.
  if (!is_enabled() || error.code == ErrorCode::cancelled) return;
  state_->add(state_, {state_->exception_event(error, operation)});
  state_->flush();
}

void Reporter::fatal(const Error& error, std::string_view operation) {
  if (!is_enabled() || error.code == ErrorCode::cancelled) return;
  std::vector<TelemetryEvent> events = {state_->exception_event(error, operation)};
  if (state_->has_session) events.push_back(state_->session_end());
  state_->add(state_, std::move(events));
  state_->flush();
}

Task<> Reporter::drain(nanoseconds limit) {
  return State::drain(state_, limit);
}

Task<> Reporter::State::drain(std::shared_ptr<State> state, nanoseconds limit) {
  state->accepts = false;
  if (state->unsent() == 0) {
    state->stop();
    co_return Result<void>();
  }
  if (!state->scope) start_sending(state, state->core->scope());
  state->flush();
  auto waiting = wait_until_sent(state, limit);
  const auto result = co_await std::move(waiting);
  if (const auto left = state->unsent(); left > 0) {
    state->last_warning.reset();  // this one is always told
    state->drop(left, "not sent before the end of the session");
  }
  state->stop();
  co_return result;
}

std::size_t Reporter::queued() const noexcept {
  return state_->unsent();
}

}  // namespace tinker::telemetry
