#include <chrono>
#include <utility>

#include "api/redactor.h"
#include "base/logging.h"
#include "base/strings.h"
#include "client/download.h"
#include "client/piece_sink.h"
#include "http/redirect.h"
#include "http/retry_after.h"
#include "http/url.h"
#include "tinker/version.h"

namespace tinker::client {

using async::Task;

namespace {

constexpr int kMaxRetries = 10;
constexpr int kMaxRenewals = 2;

/// Storage that does not take a signature any more says one of these.
bool may_be_expired(const Error& error) noexcept {
  return error.http_status == 400 || error.http_status == 401 || error.http_status == 403;
}

/// Nothing of ours: neither the credential nor what describes this client to the API.
http::Request make_request(const http::Url& url, const Object& object, const Piece& piece) {
  http::Request request = {.method = http::Method::get, .url = url.to_string()};
  request.headers.add("Accept", "*/*");
  request.headers.add("Accept-Encoding", "identity");
  request.headers.add("User-Agent", base::concat("tinker-cpp/", version()));
  if (piece.is_all) return request;
  request.headers.add("Range",
                      base::concat("bytes=", piece.offset, "-", piece.offset + piece.bytes - 1));
  if (object.parts) request.headers.add("If-Range", object.parts->etag);
  return request;
}

/// What a transport says of a request, without its signature.
Error without_query(Error error, const http::Url& url) {
  const auto query = url.target.find('?');
  if (query == std::string::npos) return error;
  api::Redactor redactor;
  redactor.keep(std::string_view(url.target).substr(query));
  error.message = redactor.redact(error.message);
  for (auto& context : error.context) context = redactor.redact(context);
  return error;
}

/// One request, with the redirects it meets.
Task<ObjectHead> try_piece(std::shared_ptr<Download> download,
                           std::shared_ptr<Object> object,
                           Piece piece) {
  auto url = http::Url::parse(download->urls[object->name]);
  if (!url) co_return std::move(url).error();
  const auto lease = download->pool->lease();
  for (int redirects = 0; redirects <= http::kMaxRedirects; ++redirects) {
    const auto sink = std::make_shared<PieceSink>(download, object, piece);
    auto request = make_request(*url, *object, piece);
    request.channel = lease.channel();
    request.sink = sink;
    auto sending = download->pool->transport()->send(std::move(request));
    auto wait = async::until(std::move(sending));
    auto response = co_await wait;
    auto draining = sink->drain();
    const auto drained = co_await std::move(draining);
    if (response.ok() && drained.ok() && http::is_redirect(*response)) {
      url = http::redirect_target(*url, *response);
      if (!url) co_return std::move(url).error();
      continue;
    }
    auto head = response.ok() && drained.ok() ? sink->settle(*response)
                : response.ok()               ? Result<ObjectHead>(drained.error())
                                              : without_query(response.error(), *url);
    if (!head.ok()) sink->give_up();
    co_return head;
  }
  co_return Error{
      .code = ErrorCode::unexpected_status,
      .message = base::concat("storage redirects more than ", http::kMaxRedirects, " times")};
}

/// Asks for new URLs, unless somebody has since `generation`.
Task<> renew_urls(std::shared_ptr<Download> download, std::uint64_t generation) {
  auto turn = download->renewing.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  if (download->urls_generation != generation) co_return Result<void>();
  auto finding = find_urls(download);
  co_return co_await std::move(finding);
}

}  // namespace

Task<ObjectHead> fetch_piece(std::shared_ptr<Download> download,
                             std::shared_ptr<Object> object,
                             Piece piece) {
  const auto& runtime = download->runtime();
  int renewals = 0;
  for (int retries = 0;;) {
    const auto generation = download->urls_generation;
    auto attempt = try_piece(download, object, piece);
    auto head = co_await std::move(attempt);
    if (head.ok()) co_return head;
    const Error error = std::move(head).error();
    if (may_be_expired(error) && renewals < kMaxRenewals) {
      ++renewals;
      auto renewing = renew_urls(download, generation);
      TINKER_CO_TRY(co_await std::move(renewing));
      continue;
    }
    if (!http::is_retryable(error) || retries == kMaxRetries) {
      co_return error.with_context(object->name);
    }
    const auto delay = error.retry.after ? std::chrono::nanoseconds(*error.retry.after)
                                         : http::backoff_delay(retries, runtime->rng().uniform());
    ++retries;
    TINKER_LOG(runtime->logger(),
               info,
               "download of ",
               object->name,
               ": ",
               error.to_string(),
               "; again in ",
               std::chrono::duration_cast<std::chrono::milliseconds>(delay).count(),
               " ms");
    auto pause = async::sleep_for(delay);
    TINKER_CO_TRY(co_await pause);
  }
}

}  // namespace tinker::client
