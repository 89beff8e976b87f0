#include "support/load_server/api.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/strings.h"
#include "support/load_server/training.h"

namespace tinker::load_server {

namespace {

using std::chrono::milliseconds;

// How often a batched poll looks whether a sample that came after it is ready.
constexpr milliseconds kBatchLook{2};
constexpr std::size_t kTokens = 64;

/// What follows `key` in a compact JSON text, up to `end`. The clients under test write such texts.
std::string_view after(std::string_view json, std::string_view key, std::string_view end) {
  const auto at = json.find(key);
  if (at == std::string_view::npos) return {};
  const auto value = json.substr(at + key.size());
  return value.substr(0, value.find_first_of(end));
}

std::uint64_t number_after(std::string_view json, std::string_view key, std::uint64_t fallback) {
  const auto text = after(json, key, ",}");
  std::uint64_t out = fallback;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

/// A protobuf SampleResponse: `count` sequences of tokens with their logprobs (PROTOBUF 4).
std::string sample_response(std::uint64_t count) {
  const auto field = [](std::string& out, char number, const std::string& bytes) {
    out += static_cast<char>((number << 3) | 2);
    for (auto length = bytes.size();; length >>= 7U) {
      out += static_cast<char>(length < 0x80 ? length : (length & 0x7FU) | 0x80U);
      if (length < 0x80) break;
    }
    out += bytes;
  };
  std::string sequence = {'\x08', '\x01'};  // stop_reason: stop
  field(sequence, 2, std::string(kTokens * 4, '\x01'));
  field(sequence, 3, std::string(kTokens * 4, '\0'));
  std::string out;
  for (std::uint64_t i = 0; i < count; ++i) field(out, 1, sequence);
  return out;
}

struct Fixed {
  std::string_view path;
  std::string_view body;
};
constexpr std::array<Fixed, 8> kFixed = {{
    {.path = "/client/dynamic_config", .body = "{}"},
    {.path = "/create_session", .body = R"({"type":"create_session","session_id":"session-1"})"},
    {.path = "/telemetry", .body = R"({"status":"accepted"})"},
    {.path = "/get_server_capabilities",
     .body = R"({"supported_models":[{"model_name":"load/model"}]})"},
    {.path = "/healthz", .body = R"({"status":"ok"})"},
    {.path = "/finish", .body = "{}"},
    {.path = "/cancel_future", .body = "{}"},
    // {"exp":4102444800,"sub":"tml:organization_user:abc","org_id":"lab"}
    {.path = "/auth/token",
     .body =
         R"({"jwt":"eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InRtbDpvcmdhbml6YXRpb25fdXNlcjphYmMiLCJvcmdfaWQiOiJsYWIifQ.c2ln"})"},
}};

}  // namespace

Api::Api(ServerOptions options)
    : options_(std::move(options)),
      is_batched_(options_.client_config.find("sample_use_retrieve_futures") != std::string::npos),
      rng_(options_.seed) {}

milliseconds Api::random_delay(milliseconds min, milliseconds max) {
  if (max <= min) return min;
  return min + milliseconds(rng_.below(static_cast<std::uint64_t>((max - min).count()) + 1));
}

Answer Api::answer(const Request& request, Time now) {
  ++requests_;
  Answer out;
  const std::string_view text = !request.fault.empty()   ? request.fault
                                : !request.query.empty() ? request.query
                                : is_fault_due(request)  ? options_.fault
                                                         : std::string_view();
  if (!text.empty()) {
    auto plan = parse_plan(text);
    if (!plan.ok()) {
      out.plan.status = 400;
      out.body = base::concat(R"({"detail":")", plan.error().message, R"("})");
      return out;
    }
    out.plan = *std::move(plan);
    if (request.retry_count >= out.plan.until) {
      out.plan.fault = Fault::none;
      out.plan.status = 200;
    }
    if (out.plan.fault == Fault::mix) out.plan = random_plan(rng_);
    out.plan.delay = random_delay(out.plan.delay, out.plan.delay_max);
  }
  if (out.plan.status != 200) {
    out.body = base::concat(R"({"detail":"status )", out.plan.status, R"("})");
  } else {
    fill(out, request, now);
  }
  if (out.plan.bytes > 0) out.body.assign(out.plan.bytes, 'x');
  return out;
}

bool Api::is_fault_due(const Request& request) {
  if (!request.path.ends_with(options_.fault_path)) return false;
  return faults_++ < options_.fault_count;
}

void Api::fill(Answer& answer, const Request& request, Time now) {
  const std::string_view path = request.path;
  if (path.ends_with("/asample")) return sample(answer, request, now);
  if (path.ends_with("/retrieve_future")) return retrieve(answer, request);
  if (path.ends_with("/retrieve_futures")) return retrieve_all(answer, request, now);
  if (path.ends_with("/session_heartbeat")) {
    heartbeats_.push_back(now);
    answer.body = R"({"type":"session_heartbeat"})";
    return;
  }
  if (path.ends_with("/create_sampling_session")) {
    answer.body = base::concat(
        R"({"type":"create_sampling_session","sampling_session_id":"session-1:sample:)",
        samplers_++,
        R"("})");
    return;
  }
  if (path.ends_with("/client/config")) {
    answer.body = options_.client_config;
    return;
  }
  if (path.ends_with("/stats")) {
    answer.body = stats();
    return;
  }
  if (const auto id = training_id(path, request.body, samples_ + 1)) {
    ++samples_;
    answer.body = base::concat(R"({"request_id":")", *id, R"("})");
    return;
  }
  if (path.ends_with("/release")) is_release_due_ = true;
  const auto* const fixed =
      std::ranges::find_if(kFixed, [&](const Fixed& entry) { return path.ends_with(entry.path); });
  answer.body = fixed != kFixed.end() ? fixed->body : R"({"status":"ok","type":"untyped"})";
}

void Api::sample(Answer& answer, const Request& request, Time now) {
  // The id says how many sequences the result has, so that a poll needs no memory.
  const auto count = number_after(request.body, R"("num_samples":)", 1);
  const auto id = base::concat("r-", ++samples_, "-", count);
  answer.body = base::concat(R"({"request_id":")", id, R"(","sample_sequence_ids":[)");
  for (std::uint64_t i = 0; i < count; ++i) {
    answer.body += base::concat(i == 0 ? "\"" : ",\"", id, ":", i, "\"");
  }
  answer.body += "]}";
  if (!is_batched_) return;
  const auto session = after(request.body, R"("sampling_session_id":")", "\"");
  const auto delay = random_delay(options_.poll_min, options_.poll_max);
  sessions_[std::string(session)].pending.push({.ready = now + delay, .id = id});
}

void Api::retrieve(Answer& answer, const Request& request) {
  if (answer.plan.delay == milliseconds(0) && !is_batched_) {
    answer.plan.delay = random_delay(options_.poll_min, options_.poll_max);
  }
  const auto id = after(request.body, R"("request_id":")", "\"");
  if (auto result = training_result(id)) {
    if (result->is_protobuf) answer.content_type = "application/x-protobuf";
    answer.body = std::move(result->body);
    return;
  }
  if (!request.accepts_proto) {
    answer.body = R"({"status":"ok"})";
    return;
  }
  static const std::string one = sample_response(1);
  const auto count = id.substr(std::min(id.rfind('-') + 1, id.size()));
  answer.content_type = "application/x-protobuf";
  answer.body = count == "1" ? one : sample_response(number_after(count, "", 1));
}

void Api::retrieve_all(Answer& answer, const Request& request, Time now) {
  const auto session = after(request.body, R"("sampling_session_id":")", "\"");
  Samples& samples = sessions_[std::string(session)];
  while (!samples.pending.empty() && samples.pending.top().ready <= now) {
    samples.completed.push_back(samples.pending.top().id);
    samples.pending.pop();
  }
  const auto cursor = number_after(request.body, R"("prev_cursor":)", 0);
  if (cursor >= samples.completed.size()) {
    answer.is_pending = true;
    answer.plan.delay = kBatchLook;
    if (!samples.pending.empty()) {
      const auto wait = samples.pending.top().ready - now;
      answer.plan.delay = std::min(std::chrono::ceil<milliseconds>(wait), kBatchLook);
    }
    return;
  }
  answer.body = R"({"completions":[)";
  for (auto i = cursor; i < samples.completed.size(); ++i) {
    answer.body += base::concat(i == cursor ? "" : ",",
                                R"({"state":"finished","request_id":")",
                                samples.completed[i],
                                R"(","response_payload_uncompressed_size":)",
                                sample_response(1).size(),
                                "}");
  }
  answer.body += base::concat(R"(],"cursor":)", samples.completed.size(), "}");
}

std::string Api::stats() const {
  std::string out = base::concat(R"({"requests":)",
                                 requests_,
                                 R"(,"samples":)",
                                 samples_,
                                 R"(,"accepted":)",
                                 connections_.accepted,
                                 R"(,"open":)",
                                 connections_.open,
                                 R"(,"held":)",
                                 connections_.held,
                                 R"(,"heartbeat_ms":[)");
  for (std::size_t i = 0; i < heartbeats_.size(); ++i) {
    const auto since = std::chrono::duration_cast<milliseconds>(heartbeats_[i] - heartbeats_[0]);
    out += base::concat(i == 0 ? "" : ",", since.count());
  }
  return out + "]}";
}

}  // namespace tinker::load_server
