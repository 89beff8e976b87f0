#pragma once

#include <memory>
#include <string>
#include <utility>

#include "async/task.h"
#include "base/strings.h"
#include "http/api_client.h"
#include "session/session_core.h"
#include "wire/json.h"

namespace tinker::session {

/// Reads the JSON of a 2xx answer; what does not fit is `invalid_response`, naming the endpoint.
template <typename Answer>
Result<Answer> read_answer(const http::Response& response,
                           const std::string& endpoint,
                           const http::ApiClient& api) {
  auto answer = wire::decode_json<Answer>(response.body);
  if (answer) return answer;
  Error error = std::move(answer).error();
  error.message = api.redact(std::move(error.message));  // it may quote the answer
  return std::move(error).with_context(base::concat("answer of ", endpoint));
}

/// Makes a call with the session's credential and reads the JSON of its answer. HTTP-layer retries
/// only; wrap it in `execute_with_retries` where the retry matrix (R5.6) says so.
template <typename Answer>
async::Task<Answer> call_json(std::shared_ptr<SessionCore> session, http::Call call) {
  const std::string endpoint = call.endpoint.empty() ? call.path : call.endpoint;
  auto answer = session->api->call(std::move(call), session->tokens);
  TINKER_CO_TRY(const auto response, co_await std::move(answer));
  co_return read_answer<Answer>(response, endpoint, *session->api);
}

/// `value` as the body of a call.
template <typename Request>
Result<http::Body> json_body(const Request& value) {
  TINKER_TRY(std::string text, wire::encode_json(value));
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace tinker::session
