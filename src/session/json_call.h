#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/api_client.h"
#include "async/task.h"
#include "base/strings.h"
#include "session/session_core.h"
#include "wire/json.h"

namespace tinker::session {

/// Reads the JSON of a 2xx answer; what does not fit is `invalid_response`, naming the endpoint.
template <typename Answer>
Result<Answer> read_answer(const http::Response& response,
                           const std::string& endpoint,
                           const api::ApiClient& api) {
  auto answer = wire::decode_json<Answer>(response.body);
  if (answer) return answer;
  Error error = std::move(answer).error();
  error.message = api.redact(error.message);  // it may quote the answer
  return std::move(error).with_context(base::concat("answer of ", endpoint));
}

namespace detail {

template <typename Answer>
async::Task<Answer> read_when_there(std::shared_ptr<SessionCore> session,
                                    std::string endpoint,
                                    async::Task<http::Response> asking) {
  TINKER_CO_TRY(const auto response, co_await std::move(asking));
  co_return read_answer<Answer>(response, endpoint, *session->api);
}

}  // namespace detail

/// Makes a call with the session's credential and reads the JSON of its answer. HTTP-layer retries
/// only; wrap it in `execute_with_retries` where the retry matrix (R5.6) says so.
template <typename Answer>
async::Task<Answer> call_json(std::shared_ptr<SessionCore> session, api::Call call) {
  std::string endpoint = call.endpoint.empty() ? call.path : call.endpoint;
  auto asking = session->api->call(std::move(call), session->tokens);
  return detail::read_when_there<Answer>(
      std::move(session), std::move(endpoint), std::move(asking));
}

/// `value` as the body of a call.
template <typename Request>
Result<http::Body> json_body(const Request& value) {
  TINKER_TRY(std::string text, wire::encode_json(value));
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace tinker::session
