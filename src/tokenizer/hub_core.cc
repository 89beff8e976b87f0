#include "tokenizer/hub_core.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/logging.h"
#include "base/relative_path.h"
#include "base/strings.h"
#include "http/ascii.h"
#include "http/content_range.h"
#include "http/redirect.h"
#include "http/retry_after.h"
#include "tinker/version.h"
#include "tokenizer/hub_sinks.h"
#include "transport/asio_transport.h"

namespace tinker::tokenizer {

using async::Task;

namespace {

constexpr int kMaxRetries = 3;
constexpr int kMaxDamaged = 2;
constexpr std::size_t kMaxKept = 32;
constexpr auto kLockPause = std::chrono::milliseconds(100);

/// "abc" of `"abc"` and `W/"abc"`.
std::string plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

/// Whether it can name a file.
bool is_safe_etag(std::string_view etag) {
  constexpr std::size_t kMaxBytes = 128;
  const auto is_plain = [](char c) {
    return http::ascii::is_alnum(c) || c == '-' || c == '_' || c == '.';
  };
  return !etag.empty() && etag.size() <= kMaxBytes && etag.front() != '.' &&
         std::ranges::all_of(etag, is_plain);
}

std::optional<std::uint64_t> size_of(const http::Response& response) {
  if (response.status == 200) return http::content_length(response.headers);
  const auto range = http::parse_content_range(response.headers.find("content-range").value_or(""));
  return range ? std::optional(range->total) : std::nullopt;
}

std::string encode_path(std::string_view path) {
  std::string out;
  while (true) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    out += http::encode_path_segment(path.substr(0, slash));
    if (slash == path.size()) return out;
    out += '/';
    path.remove_prefix(slash + 1);
  }
}

Error redirected_too_often() {
  return {.code = ErrorCode::unexpected_status,
          .message = base::concat("the hub redirects more than ", http::kMaxRedirects, " times")};
}

Error no_such_file(const HubPath& path) {
  return {.code = ErrorCode::not_found,
          .message = base::concat(
              path.repository, " has no file ", path.name, " at revision ", path.revision)};
}

}  // namespace

Result<std::shared_ptr<HubCore>> HubCore::open(const std::shared_ptr<async::RuntimeCore>& runtime,
                                               HubOptions options) {
  TINKER_TRY(auto settings, HubSettings::resolve(options, {}));
  if (!options.transport) {
    TINKER_TRY(options.transport,
               http::AsioTransport::create(runtime, std::move(options.transport_options)));
  }
  return std::make_shared<HubCore>(runtime, std::move(options.transport), std::move(settings));
}

Result<std::shared_ptr<HubCore>> HubCore::shared(
    const std::shared_ptr<async::RuntimeCore>& runtime) {
  using Opened = Result<std::shared_ptr<HubCore>>;
  return *runtime->shared<Opened>(
      [&runtime] { return std::make_shared<Opened>(open(runtime, {})); });
}

Task<Tokenizer> HubCore::tokenizer(TokenizerId id) {
  const auto found = std::ranges::find(kept_, id, &std::pair<TokenizerId, Tokenizer>::first);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    co_return found->second;
  }
  auto loading = load(id);
  TINKER_CO_TRY(auto tokenizer, co_await std::move(loading));
  kept_.emplace_front(std::move(id), tokenizer);
  if (kept_.size() > kMaxKept) kept_.pop_back();
  co_return tokenizer;
}

Task<Tokenizer> HubCore::load(TokenizerId id) {
  const auto path_of = [&id](const char* name) {
    return HubPath{.repository = id.repository, .revision = id.revision, .name = name};
  };
  auto finding = find(path_of("tokenizer.json"), HubProgress());
  TINKER_CO_TRY(auto path, co_await std::move(finding));
  if (!path) {
    auto second = find(path_of("tiktoken.model"), HubProgress());
    TINKER_CO_TRY(path, co_await std::move(second));
    if (!path) {
      co_return Error{.code = ErrorCode::not_found,
                      .message = base::concat(id.repository,
                                              " has neither tokenizer.json nor tiktoken.model at ",
                                              "revision ",
                                              id.revision)};
    }
    auto beside = find(path_of("tokenizer_config.json"), HubProgress());
    TINKER_CO_TRY(co_await std::move(beside));
  }
  auto loading = on_workers([path = *path] { return Tokenizer::load(path); });
  co_return co_await loading;
}

Task<std::string> HubCore::file(HubPath path, HubProgress progress) {
  auto finding = find(path, std::move(progress));
  TINKER_CO_TRY(auto found, co_await std::move(finding));
  if (!found) co_return no_such_file(path);
  co_return *std::move(found);
}

Task<std::optional<std::string>> HubCore::find(HubPath path, HubProgress progress) {
  TINKER_CO_TRY(check(path));
  auto finding =
      on_workers([cache = cache_, path]() -> Result<HubCache::Found> { return cache.find(path); });
  TINKER_CO_TRY(auto cached, co_await finding);
  const bool is_final = settings_.is_offline || is_commit(path.revision);
  if (is_final && cached.path) co_return std::move(cached.path);
  if (is_final && cached.is_absent) co_return std::optional<std::string>();
  if (settings_.is_offline) co_return offline(path);
  auto looking = look(path, cached.path ? 0 : kMaxRetries);
  auto head = co_await std::move(looking);
  if (!head.ok() && cached.path && http::is_retryable(head.error())) {
    TINKER_LOG(runtime_->logger(),
               warn,
               path.to_string(),
               " comes from the cache, which may be out of date: ",
               head.error().to_string());
    co_return std::move(cached.path);
  }
  if (!head.ok()) co_return std::move(head).error();
  if (head->is_absent) {
    auto noting = on_workers([cache = cache_, path, commit = head->commit]() -> Result<void> {
      return is_commit(commit) ? cache.note_absent(path, commit) : Result<void>();
    });
    TINKER_CO_TRY(co_await noting);
    co_return std::optional<std::string>();
  }
  auto bringing = bring(path, *head, std::move(progress));
  if (auto brought = co_await std::move(bringing); !brought.ok()) {
    co_return std::move(brought).error().with_context(path.to_string());
  }
  auto publishing = on_workers(
      [cache = cache_, path, head = *head] { return cache.publish(path, head.commit, head.etag); });
  TINKER_CO_TRY(auto published, co_await publishing);
  co_return std::optional(std::move(published));
}

Task<HubCore::Head> HubCore::look(HubPath path, int max_retries) {
  for (int retries = 0;; ++retries) {
    auto trying = try_look(path);
    auto head = co_await std::move(trying);
    if (head.ok()) co_return head;
    if (!http::is_retryable(head.error()) || retries == max_retries) co_return head.error();
    auto pausing = pause(path, head.error(), retries);
    TINKER_CO_TRY(co_await std::move(pausing));
  }
}

/// Asks for the first byte: the answer, or the redirect to storage that comes instead, describes
/// the file.
Task<HubCore::Head> HubCore::try_look(HubPath path) {
  TINKER_CO_TRY(auto url, url_of(path));
  Head out;
  for (int redirects = 0; redirects <= http::kMaxRedirects; ++redirects) {
    const auto sink = std::make_shared<HeadSink>();
    auto sending = send(url, "bytes=0-0", sink);
    const auto sent = co_await std::move(sending);
    const bool has_head = sink->head() && sink->head()->status == 200;
    if (!sent.ok() && !has_head) co_return sent.error();
    const http::Response response = has_head ? *sink->head() : *sent;
    const auto& headers = response.headers;
    if (out.commit.empty()) out.commit = headers.find("x-repo-commit").value_or("");
    const auto linked = headers.find("x-linked-etag");
    if (!linked && http::is_redirect(response)) {
      TINKER_CO_TRY(url, http::redirect_target(url, response));
      continue;
    }
    out.is_absent = response.status == 404 && headers.find("x-error-code") == "EntryNotFound";
    if (out.is_absent) co_return out;
    const bool is_described = linked || response.status == 200 || response.status == 206 ||
                              response.status == 416;  // an empty file has no first byte
    if (!is_described) co_return refusal(path, response);
    out.etag = plain_etag(linked ? *linked : headers.find("etag").value_or(""));
    out.size =
        linked ? http::parse_length(headers.find("x-linked-size").value_or("")) : size_of(response);
    if (is_commit(out.commit) && is_safe_etag(out.etag)) co_return out;
    co_return Error{.code = ErrorCode::invalid_response,
                    .message = base::concat(settings_.endpoint,
                                            " answers as no hub does: expected X-Repo-Commit and "
                                            "ETag, found ",
                                            base::quoted(out.commit),
                                            " and ",
                                            base::quoted(out.etag))};
  }
  co_return redirected_too_often();
}

/// Afterwards the content is in the cache, whoever brought it.
Task<> HubCore::bring(HubPath path, Head head, HubProgress progress) {
  for (bool is_told = false;; is_told = true) {
    auto opening = on_workers([cache = cache_, path, head]() -> Result<std::pair<bool, Blob>> {
      if (cache.has_blob(path.repository, head.etag)) return std::pair(true, Blob());
      TINKER_TRY(Blob blob, cache.open_blob(path.repository, head.etag));
      return std::pair(false, std::move(blob));
    });
    TINKER_CO_TRY(auto opened, co_await opening);
    if (opened.first) co_return Result<void>();
    if (opened.second) {
      auto fetching = fetch(path, head, std::move(progress), std::move(opened.second));
      co_return co_await std::move(fetching);
    }
    if (!is_told) {
      TINKER_LOG(runtime_->logger(), info, path.to_string(), ": another process brings it");
    }
    auto waiting = async::sleep_for(kLockPause);
    TINKER_CO_TRY(co_await waiting);
  }
}

Task<> HubCore::fetch(HubPath path, Head head, HubProgress progress, Blob blob) {
  path.revision = head.commit;  // what it was a moment ago, whatever happens to the branch
  std::uint64_t furthest = 0;
  int damaged = 0;
  for (int retries = 0;;) {
    auto trying = try_fetch(path, head, progress, blob);
    auto outcome = co_await std::move(trying);
    if (outcome.ok()) {
      auto finishing = on_workers([blob] { return blob->finish(); });
      outcome = co_await finishing;
      if (outcome.ok()) co_return outcome;
      Error error = std::move(outcome).error();
      if (error.code != ErrorCode::conflict) co_return error;
      if (++damaged == kMaxDamaged) {
        error.code = ErrorCode::invalid_response;
        co_return error;
      }
      TINKER_LOG(runtime_->logger(), warn, path.to_string(), ": ", error.message, "; once more");
      continue;
    }
    const Error error = std::move(outcome).error();
    auto measuring = on_workers([blob] { return blob->size(); });
    TINKER_CO_TRY(const auto size, co_await measuring);
    if (size > furthest) retries = 0;  // a long download may break off often
    furthest = std::max(furthest, size);
    if (!http::is_retryable(error) || retries == kMaxRetries) co_return error;
    auto pausing = pause(path, error, retries++);
    TINKER_CO_TRY(co_await std::move(pausing));
  }
}

/// All that is missing, in one request.
Task<> HubCore::try_fetch(HubPath path, Head head, HubProgress progress, Blob blob) {
  auto asking = on_workers([blob, head]() -> Result<std::uint64_t> {
    TINKER_TRY(const auto size, blob->size());
    if (!head.size || size <= *head.size) return size;
    TINKER_TRY(blob->cut(0));
    return 0;
  });
  TINKER_CO_TRY(const auto have, co_await asking);
  if (have == head.size) co_return Result<void>();
  const std::string range = have == 0 ? std::string() : base::concat("bytes=", have, "-");
  TINKER_CO_TRY(auto url, url_of(path));
  for (int redirects = 0; redirects <= http::kMaxRedirects; ++redirects) {
    const auto sink = std::make_shared<BlobSink>(runtime_, blob, have, progress);
    auto sending = send(url, range, sink);
    const auto response = co_await std::move(sending);
    auto draining = sink->drain();
    const auto drained = co_await std::move(draining);
    if (!response.ok()) co_return response.error();
    if (!drained.ok()) co_return drained.error();
    if (http::is_redirect(*response)) {
      TINKER_CO_TRY(url, http::redirect_target(url, *response));
      continue;
    }
    if (response->status == 416 && have > 0) {  // what is here is not the beginning of it
      auto cutting = on_workers([blob] { return blob->cut(0); });
      TINKER_CO_TRY(co_await cutting);
      co_return Error{.code = ErrorCode::connection_failed,
                      .message = base::concat("the hub has nothing behind byte ", have),
                      .retry = {.retryable = true}};
    }
    if (response->status != 200 && response->status != 206) co_return refusal(path, *response);
    TINKER_CO_TRY(const auto size, sink->settle(*response));
    if (head.size && size != *head.size) {
      co_return Error{
          .code = ErrorCode::invalid_response,
          .message = base::concat("the hub sends ", size, " bytes, and announced ", *head.size)};
    }
    co_return Result<void>();
  }
  co_return redirected_too_often();
}

Task<HubListing> HubCore::list(std::string repository, std::string revision) {
  const HubPath path = {
      .repository = std::move(repository), .revision = std::move(revision), .name = "config.json"};
  TINKER_CO_TRY(check(path));
  if (settings_.is_offline) co_return offline(path);
  for (int retries = 0;; ++retries) {
    auto trying = try_list(path);
    auto listing = co_await std::move(trying);
    if (listing.ok()) co_return listing;
    if (!http::is_retryable(listing.error()) || retries == kMaxRetries) co_return listing.error();
    auto pausing = pause(path, listing.error(), retries);
    TINKER_CO_TRY(co_await std::move(pausing));
  }
}

Task<HubListing> HubCore::try_list(HubPath path) {
  TINKER_CO_TRY(auto url,
                http::Url::parse(base::concat(settings_.endpoint,
                                              "/api/models/",
                                              path.repository,
                                              "/revision/",
                                              http::encode_path_segment(path.revision),
                                              "?blobs=true")));
  for (int redirects = 0; redirects <= http::kMaxRedirects; ++redirects) {
    auto sending = send(url, std::string(), nullptr);
    TINKER_CO_TRY(const auto response, co_await std::move(sending));
    if (http::is_redirect(response)) {  // it has another name now
      TINKER_CO_TRY(url, http::redirect_target(url, response));
      continue;
    }
    if (response.status != 200) co_return refusal(path, response);
    auto listing = parse_hub_listing(response.body);
    if (listing.ok()) co_return listing;
    co_return listing.error().with_context(settings_.endpoint + " answers as no hub does");
  }
  co_return redirected_too_often();
}

Task<> HubCore::set_revision(HubPath path, std::string commit) {
  auto setting = on_workers([cache = cache_, path = std::move(path), commit = std::move(commit)] {
    return cache.set_revision(path, commit);
  });
  co_return co_await setting;
}

/// One request, whatever the answer. The token goes to the hub itself alone.
Task<http::Response> HubCore::send(http::Url url,
                                   std::string range,
                                   std::shared_ptr<http::BodySink> sink) {
  http::Request request = {.method = http::Method::get, .url = url.to_string()};
  request.headers.add("Accept", "*/*");
  request.headers.add("Accept-Encoding", "identity");
  request.headers.add("User-Agent", base::concat("tinker-cpp/", version()));
  if (!range.empty()) request.headers.add("Range", range);
  TINKER_CO_TRY(const auto home, http::Url::parse(settings_.endpoint));
  if (!settings_.token.empty() && url.same_origin(home)) {
    request.headers.add("Authorization", base::concat("Bearer ", settings_.token.expose()));
  }
  request.sink = std::move(sink);
  auto wait = async::until(transport_->send(std::move(request)));
  auto response = co_await wait;
  if (response.ok()) co_return response;
  // Where a redirect led to may be signed.
  Error error = std::move(response).error();
  if (!url.same_origin(home))
    error.message = base::concat("storage of the hub at ", url.origin(), " does not answer");
  co_return error;
}

Task<> HubCore::pause(HubPath path, Error error, int retries) {
  const auto delay = error.retry.after ? std::chrono::nanoseconds(*error.retry.after)
                                       : http::backoff_delay(retries, runtime_->rng().uniform());
  TINKER_LOG(runtime_->logger(),
             info,
             path.to_string(),
             ": ",
             error.to_string(),
             "; again in ",
             std::chrono::duration_cast<std::chrono::milliseconds>(delay).count(),
             " ms");
  auto sleeping = async::sleep_for(delay);
  co_return co_await sleeping;
}

Result<http::Url> HubCore::url_of(const HubPath& path) const {
  return http::Url::parse(base::concat(settings_.endpoint,
                                       "/",
                                       path.repository,
                                       "/resolve/",
                                       http::encode_path_segment(path.revision),
                                       "/",
                                       encode_path(path.name)));
}

Error HubCore::offline(const HubPath& path) const {
  return {.code = ErrorCode::not_found,
          .message = base::concat(path.to_string(),
                                  " is not in the cache ",
                                  settings_.cache.string(),
                                  ", and the hub may not be asked (HF_HUB_OFFLINE)")};
}

Error HubCore::refusal(const HubPath& path, const http::Response& response) const {
  const int status = response.status;
  const auto kind = response.headers.find("x-error-code").value_or("");
  const std::string_view advice = settings_.token.empty()
                                      ? "; if it is private or gated, set HF_TOKEN"
                                      : "; the token may not see it";
  std::string message;
  if (kind == "GatedRepo") {
    message = base::concat(path.repository,
                           " is gated: ask for access at ",
                           settings_.endpoint,
                           "/",
                           path.repository,
                           settings_.token.empty() ? " and set HF_TOKEN" : "");
  } else if (kind == "RevisionNotFound") {
    message = base::concat(path.repository, " has no revision ", path.revision);
  } else if (kind == "RepoNotFound" || status == 401 || status == 403 || status == 404) {
    message = base::concat(settings_.endpoint, " has no ", path.repository, " to show", advice);
  } else {
    message = base::concat(settings_.endpoint, " answers ", status);
  }
  if (const auto said = response.headers.find("x-error-message"); said && !said->empty()) {
    message += base::concat("; it says ", base::quoted(*said));
  }
  Error error = {
      .code = error_code_for_status(status), .message = std::move(message), .http_status = status};
  error.retry.retryable = http::is_retryable(error);
  if (const auto after = http::retry_after(response.headers, runtime_->clock().wall_time())) {
    error.retry.after = std::chrono::duration_cast<std::chrono::milliseconds>(*after);
  }
  return error;
}

}  // namespace tinker::tokenizer
