#include "conform/endpoint.h"

#include <utility>

#include "base/strings.h"
#include "conform/law.h"
#include "tinker/version.h"

namespace tinker::conform {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{50};

/// A body that a person can read: its beginning, or how long it is.
std::string shown(std::string_view body, bool is_text) {
  constexpr std::size_t kShown = 400;
  if (!is_text) return base::concat("<", body.size(), " bytes>");
  if (body.size() <= kShown) return std::string(body);
  return base::concat(body.substr(0, kShown), "... (", body.size(), " bytes)");
}

/// What a transport made of an exchange without an answer.
Error no_answer(std::string_view question, const Error& error) {
  if (error.code == ErrorCode::cancelled) return error;
  return broken(base::concat(question, " -> no answer: ", error.message));
}

}  // namespace

std::string Answer::to_string() const {
  return base::concat(question, " -> ", status, " ", shown(body, !is_proto));
}

struct Endpoint::Pending {
  std::string question;
  Clock::time_point started;
  Clock::time_point deadline;
  Future<http::Response> response;
};

Endpoint::Endpoint(std::shared_ptr<http::Transport> transport,
                   std::string base_url,
                   Secret api_key,
                   const std::atomic<bool>* interrupted)
    : transport_(std::move(transport)),
      base_url_(std::move(base_url)),
      api_key_(std::move(api_key)),
      interrupted_(interrupted) {
  while (base_url_.ends_with('/')) base_url_.pop_back();
}

Endpoint::Pending Endpoint::start(Call call) {
  std::string question = base::concat(to_string(call.method), " ", call.path);
  if (!call.body.empty()) question += " " + shown(call.body, call.content_type == kJson);
  http::Request request = {.method = call.method,
                           .url = base_url_ + call.path,
                           .headers = std::move(call.headers),
                           .timeouts = {.read = call.timeout},
                           .channel = 0};
  request.headers.add("Accept", call.accept);
  request.headers.add("User-Agent", base::concat("tinker-conform/", version()));
  request.headers.add("X-Stainless-Package-Version", protocol_version());
  if (!api_key_.empty()) request.headers.add("X-API-Key", api_key_.expose());
  if (call.method != http::Method::get) request.headers.add("Content-Type", call.content_type);
  request.body = std::make_shared<const std::string>(std::move(call.body));
  const auto now = Clock::now();
  return {.question = std::move(question),
          .started = now,
          .deadline = now + call.timeout,
          .response = transport_->send(std::move(request))};
}

Result<Answer> Endpoint::wait(Pending& pending) {
  while (true) {
    if (is_interruptible_ && interrupted_ != nullptr && interrupted_->load())
      return undecided("interrupted");
    auto response = pending.response.get(kTick);
    if (response.ok()) {
      const auto type = response->headers.find("Content-Type").value_or("");
      return Answer{.question = std::move(pending.question),
                    .status = response->status,
                    .body = std::move(response->body),
                    .is_proto = type.find("protobuf") != std::string_view::npos,
                    .took = Clock::now() - pending.started};
    }
    if (response.error().code != ErrorCode::deadline_exceeded) {
      return no_answer(pending.question, response.error());
    }
    if (Clock::now() > pending.deadline) {
      const std::chrono::duration<double> waited = pending.deadline - pending.started;
      return broken(base::concat(pending.question, " -> no answer in ", waited.count(), " s"));
    }
  }
}

Result<Answer> Endpoint::send(Call call) {
  auto pending = start(std::move(call));
  return wait(pending);
}

std::vector<Result<Answer>> Endpoint::send_all(std::vector<Call> calls) {
  std::vector<Pending> pending;
  pending.reserve(calls.size());
  for (auto& call : calls) pending.push_back(start(std::move(call)));
  std::vector<Result<Answer>> out;
  out.reserve(pending.size());
  for (auto& each : pending) out.push_back(wait(each));
  return out;
}

}  // namespace tinker::conform
