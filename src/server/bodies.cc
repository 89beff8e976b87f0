#include "server/bodies.h"

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "base/strings.h"
#include "http/content_coding.h"
#include "server/service.h"

namespace tinker::server {

namespace {

// Bodies at least this long are hashed by a worker, packed ones are always unpacked there.
constexpr std::size_t kLargeBody = std::size_t{64} << 10U;
// A packed body may stand for this much, and beyond that for so many times its size: what stands
// for more was made to fill the memory.
constexpr std::size_t kUnpacked = std::size_t{64} << 20U;
constexpr std::size_t kMaxExpansion = 1000;
// Smaller bodies take no more than their heads may, and are not counted: heartbeats always pass.
constexpr std::size_t kSmallBody = std::size_t{64} << 10U;

Result<PlainBody> unpack(const std::string& coding,
                         std::string packed,
                         std::size_t limit,
                         bool is_hashed) {
  const std::size_t most = std::min(limit, std::max(kUnpacked, kMaxExpansion * packed.size()));
  TINKER_TRY(std::string plain,
             http::decode_content(coding, std::move(packed), most, ErrorCode::unprocessable));
  if (!is_hashed) return PlainBody{.bytes = std::move(plain)};
  base::Sha256 hash;
  hash.update(plain);
  return PlainBody{.bytes = std::move(plain), .hash = hash.finish()};
}

}  // namespace

IncomingBody::IncomingBody(std::shared_ptr<Service> service, std::string owner)
    : service_(std::move(service)), owner_(std::move(owner)) {}

IncomingBody::~IncomingBody() {
  service_->incoming_bytes.remove(owner_, counted_);
}

Result<void> IncomingBody::grow_to(std::size_t bytes) {
  if (bytes <= std::max(counted_, kSmallBody)) return {};
  Shares& all = service_->incoming_bytes;
  const std::size_t more = bytes - counted_;
  const bool is_only = all.of(owner_) == counted_;
  if (!is_only && !all.admits(owner_, more, service_->options().limits.incoming_bytes)) {
    return Error{.code = ErrorCode::rate_limited,
                 .message = base::concat("requests of yours with ",
                                         all.of(owner_),
                                         " bytes are being received; try again when there are "
                                         "fewer")};
  }
  all.add(owner_, more);
  counted_ = bytes;
  return {};
}

async::Task<PlainBody> receive_body(std::shared_ptr<Service> service,
                                    std::shared_ptr<IncomingBody> incoming,
                                    http::ServerRequest request,
                                    std::size_t limit,
                                    bool is_hashed) {
  const auto loop = service->loop();
  const auto end = async::time_after(loop->now(), service->options().limits.body_total_time);
  auto reading =
      http::read_body(request, limit, [incoming, loop, end](std::size_t bytes) -> Result<void> {
        if (loop->now() < end) return incoming->grow_to(bytes);
        return Error{.code = ErrorCode::unexpected_status,
                     .message = "the whole body took too long",
                     .http_status = 408};
      });
  TINKER_CO_TRY(std::string body, co_await std::move(reading));
  const std::string coding(request.headers().find("content-encoding").value_or(""));
  if (coding.empty() && body.size() < kLargeBody) {
    co_return unpack(coding, std::move(body), limit, is_hashed);
  }
  auto unpacking = service->work([coding, body = std::move(body), limit, is_hashed]() mutable {
    return unpack(coding, std::move(body), limit, is_hashed);
  });
  auto wait = async::until(std::move(unpacking));
  TINKER_CO_TRY(auto plain, co_await wait);
  TINKER_CO_TRY(incoming->grow_to(plain.bytes.size()));
  co_return plain;
}

}  // namespace tinker::server
