#include "transport/connection_pool.h"

#include <algorithm>
#include <ranges>

#include "base/strings.h"
#include "http/content_coding.h"

namespace tinker::http {

using async::time_after;

namespace {

// Who has just answered is likely to be asked again: too many idle connections get this long.
constexpr auto kIdleGrace = std::chrono::milliseconds(100);
// How often a request is sent again that no server has begun with.
constexpr int kMaxResends = 3;
// Longer answers are decompressed on the workers.
constexpr std::size_t kInlineDecodeBytes = std::size_t{64} << 10U;
/// A failure on the way to a server behind `proxy`.
Error at_proxy(Error failure, const Proxy& proxy) {
  failure.message = base::concat(
      "through the proxy ", proxy.url.authority(), " (", proxy.source, "): ", failure.message);
  return failure;
}

Error gone_away() {
  return {.code = ErrorCode::cancelled, .message = "the transport went away"};
}

/// When the transfer has stood still for too long.
TimePoint deadline(const Exchange& exchange) {
  const Timeouts& timeouts = exchange.request.timeouts;
  switch (exchange.phase) {
    case Exchange::Phase::waiting: return time_after(exchange.last_activity, timeouts.queue);
    case Exchange::Phase::sending: return time_after(exchange.last_activity, timeouts.write);
    case Exchange::Phase::receiving: break;
  }
  return time_after(exchange.last_activity, timeouts.read);
}

/// When to look at it again: no later than its deadline, also if it enters the next phase now.
TimePoint next_look(const Exchange& exchange, TimePoint now) {
  const TimePoint when = deadline(exchange);
  if (exchange.phase != Exchange::Phase::sending) return when;
  return std::min(when, time_after(now, exchange.request.timeouts.read));
}

Error timeout_error(const Exchange& exchange) {
  const Timeouts& timeouts = exchange.request.timeouts;
  const auto say = [](const auto& what, std::chrono::nanoseconds limit) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
    return Error{.code = ErrorCode::timed_out,
                 .message = base::concat(what, ms, " ms"),
                 .retry = {.retryable = true}};
  };
  switch (exchange.phase) {
    case Exchange::Phase::waiting: return say("no free connection within ", timeouts.queue);
    case Exchange::Phase::sending:
      return say("the server took nothing of the request for ", timeouts.write);
    case Exchange::Phase::receiving: break;
  }
  return say(exchange.is_head_complete ? "the answer stood still for " : "no answer within ",
             timeouts.read);
}

}  // namespace

/// A connection and its place in the pool.
struct ConnectionPool::Member final : ClientConnection {
  using ClientConnection::ClientConnection;

  Lane* lane = nullptr;
  bool is_opening = true;
  bool is_retired = false;  // to be closed after its last exchange
  bool is_resting = false;  // has nothing to do
  bool is_unflushed = false;
  bool has_delivered = false;  // at least one answer
  TimePoint resting_since = {};
  async::TimerId idle_timer = {};
};

/// The connections of one channel to one server, and the requests that wait for one.
struct ConnectionPool::Lane {
  Url origin;
  std::uint64_t channel = 0;
  const Proxy* proxy = nullptr;
  std::list<std::shared_ptr<Transfer>> waiting = {};
  std::vector<std::shared_ptr<Member>> members = {};
  std::vector<Member*> resting = {};  // HTTP/1.1 only; used last comes last
  std::size_t opening = 0;
  std::optional<std::size_t> peer_limit = {};  // what the server last said
  async::TimerId trim_timer = {};
  bool speaks_h1 = false;  // known only after the first connection, for TLS

  [[nodiscard]] Key key() const {
    return {
        .host = origin.host, .port = origin.port, .is_tls = origin.is_tls(), .channel = channel};
  }
  [[nodiscard]] Member* find_free();
};

std::size_t ConnectionPool::KeyHash::operator()(const Key& key) const noexcept {
  const std::size_t numbers =
      (key.channel << 17U) ^ (std::size_t{key.port} << 1U) ^ (key.is_tls ? 1U : 0U);
  return std::hash<std::string_view>()(key.host) ^
         std::hash<std::size_t>()(numbers) * 0x9E3779B97F4A7C15U;
}

ConnectionPool::Member* ConnectionPool::Lane::find_free() {
  if (!resting.empty()) return resting.back();
  if (speaks_h1) return nullptr;
  const auto is_free = [](const auto& member) {
    return member->is_open() && !member->is_retired && member->codec().capacity() > 0;
  };
  const auto found = std::ranges::find_if(members, is_free);
  return found == members.end() ? nullptr : found->get();
}

ConnectionPool::ConnectionPool(std::shared_ptr<NetContext> net,
                               std::shared_ptr<Executor> workers,
                               ProxyRules proxies)
    : net_(std::move(net)), workers_(std::move(workers)), proxies_(std::move(proxies)) {}

ConnectionPool::~ConnectionPool() {
  shut_down();
}

void ConnectionPool::start(const std::shared_ptr<Transfer>& transfer) {
  if (transfer->is_done) return;
  if (is_shut_down_) return end(*transfer, gone_away());
  Lane& lane = lane_for(*transfer);
  enqueue(transfer, lane, false);
  dispatch(lane);
}

ConnectionPool::Lane& ConnectionPool::lane_for(const Transfer& transfer) {
  const Url& url = transfer.url;
  const std::uint64_t channel = transfer.request.channel;
  const auto found =
      lanes_.find({.host = url.host, .port = url.port, .is_tls = url.is_tls(), .channel = channel});
  if (found != lanes_.end()) return *found->second;
  auto lane = std::make_unique<Lane>(
      Lane{.origin = url, .channel = channel, .proxy = proxies_.for_url(url)});
  lane->origin.target.clear();
  lane->speaks_h1 = !url.is_tls();
  return *lanes_.emplace(lane->key(), std::move(lane)).first->second;
}

void ConnectionPool::enqueue(const std::shared_ptr<Transfer>& transfer, Lane& lane, bool is_first) {
  const TimePoint now = net_->loop().now();
  transfer->phase = Exchange::Phase::waiting;
  transfer->last_activity = now;
  transfer->lane = &lane;
  transfer->place =
      lane.waiting.insert(is_first ? lane.waiting.begin() : lane.waiting.end(), transfer);
}

void ConnectionPool::dispatch(Lane& lane) {
  while (!lane.waiting.empty()) {
    Member* const member = lane.find_free();
    if (member == nullptr) break;
    assign(*member);
  }
  open_connections(lane);
  const TimePoint now = net_->loop().now();
  // Whoever still waits came last.
  for (const auto& transfer : lane.waiting | std::views::reverse) {
    if (transfer->timer != async::TimerId()) break;
    arm(*transfer, next_look(*transfer, now));
  }
}

void ConnectionPool::assign(Member& member) {
  Lane& lane = *member.lane;
  const std::shared_ptr<Transfer> transfer = std::move(lane.waiting.front());
  lane.waiting.pop_front();
  transfer->lane = nullptr;
  transfer->member = &member;
  member.is_resting = false;
  if (!member.is_http2()) std::erase(lane.resting, &member);
  member.start(transfer);
  arm(*transfer, next_look(*transfer, transfer->last_activity));
}

void ConnectionPool::open_connections(Lane& lane) {
  // Until it is known whether one connection is enough for all, one is tried; also when all shared
  // ones are full.
  const std::size_t wanted =
      lane.speaks_h1 ? lane.waiting.size() : std::min<std::size_t>(lane.waiting.size(), 1);
  while (lane.opening < wanted &&
         lane.members.size() < net_->options().max_connections_per_channel) {
    open_connection(lane);
  }
}

void ConnectionPool::open_connection(Lane& lane) {
  const auto member = std::make_shared<Member>(net_, weak_from_this(), lane.origin, lane.proxy);
  member->lane = &lane;
  lane.members.push_back(member);
  ++lane.opening;
  member->open(lane.waiting.front()->request.timeouts.connect);
}

// ---- what connections tell --------------------------------------------------------------------

void ConnectionPool::on_open(ClientConnection& connection) {
  auto& member = static_cast<Member&>(connection);
  Lane& lane = *member.lane;
  member.is_opening = false;
  --lane.opening;
  lane.speaks_h1 = !member.is_http2();
  // At least one, so that the connection gets something to do and its server can refuse that.
  if (lane.peer_limit) member.codec().assume_peer_limit(std::max<std::size_t>(*lane.peer_limit, 1));
  settle(member);
}

void ConnectionPool::on_progress(ClientConnection& connection) {
  auto& member = static_cast<Member&>(connection);
  collect(member);
  settle(member);
}

void ConnectionPool::on_closed(ClientConnection& connection, const std::optional<Error>& failure) {
  auto& member = static_cast<Member&>(connection);
  Lane& lane = *member.lane;
  if (member.is_opening) --lane.opening;
  net_->loop().cancel(member.idle_timer);
  std::erase(lane.resting, &member);
  const auto place =
      std::ranges::find_if(lane.members, [&](const auto& m) { return m.get() == &member; });
  const std::shared_ptr<Member> alive = std::move(*place);
  *place = std::move(lane.members.back());
  lane.members.pop_back();

  if (!failure) {
    collect(member);
  } else {
    fail_waiting_for(lane, lane.proxy != nullptr ? at_proxy(*failure, *lane.proxy) : *failure);
  }
  if (!is_shut_down_) dispatch(lane);
  drop_if_empty(lane);
}

void ConnectionPool::on_output(ClientConnection& connection) {
  auto& member = static_cast<Member&>(connection);
  if (std::exchange(member.is_unflushed, true)) return;
  unflushed_.push_back(connection.self());
  if (unflushed_.size() > 1) return;
  net_->loop().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->flush_all();
  });
}

void ConnectionPool::flush_all() {
  for (const auto& connection : std::exchange(unflushed_, {})) {
    static_cast<Member&>(*connection).is_unflushed = false;
    connection->flush();
  }
}

void ConnectionPool::collect(Member& member) {
  if (const auto limit = member.codec().peer_limit()) member.lane->peer_limit = limit;
  if (!member.codec().has_finished()) return;
  for (auto& finished : member.codec().take_finished()) complete(std::move(finished), member);
}

void ConnectionPool::settle(Member& member) {
  if (!member.is_open()) return;
  Lane& lane = *member.lane;
  const Codec& codec = member.codec();
  const bool is_over = codec.is_spent() || member.is_retired;
  if (is_over && codec.in_flight() == 0) {
    return member.close(connection_error("the connection is not needed any more"));
  }
  if (!is_over && codec.in_flight() == 0 && !member.is_resting) rest(member);
  if (!lane.waiting.empty()) dispatch(lane);
  if (lane.resting.size() <= net_->options().max_idle_per_channel ||
      lane.trim_timer != async::TimerId())
    return;
  lane.trim_timer = net_->loop().schedule_after(kIdleGrace, [this, &lane] { trim(lane); });
}

void ConnectionPool::trim(Lane& lane) {
  lane.trim_timer = {};
  const std::size_t limit = net_->options().max_idle_per_channel;
  if (lane.resting.size() <= limit) return;
  // Closing the last one may end the lane.
  std::vector<std::shared_ptr<ClientConnection>> surplus;
  const std::size_t count = lane.resting.size() - limit;
  surplus.reserve(count);
  for (std::size_t i = 0; i < count; ++i) surplus.push_back(lane.resting[i]->self());
  for (const auto& member : surplus)
    member->close(connection_error("there are enough idle connections"));
}

void ConnectionPool::rest(Member& member) {
  member.is_resting = true;
  member.resting_since = net_->loop().now();
  if (!member.is_http2()) member.lane->resting.push_back(&member);
  if (member.idle_timer == async::TimerId()) {
    arm_idle_timer(member, time_after(member.resting_since, net_->options().idle_timeout));
  }
}

void ConnectionPool::arm_idle_timer(Member& member, TimePoint when) {
  // Stays armed while the connection is used again: that costs nothing per request.
  const std::weak_ptr<ClientConnection> weak = member.weak_self();
  member.idle_timer = net_->loop().schedule(when, [this, weak] {
    const auto alive = weak.lock();
    if (!alive || alive->is_closed()) return;
    auto& me = static_cast<Member&>(*alive);
    me.idle_timer = {};
    if (!me.is_resting) return;
    const TimePoint due = time_after(me.resting_since, net_->options().idle_timeout);
    if (due > net_->loop().now()) return arm_idle_timer(me, due);
    me.close(connection_error("the connection was idle for too long"));
  });
}

void ConnectionPool::drop_if_empty(Lane& lane) {
  if (!lane.members.empty() || !lane.waiting.empty()) return;
  net_->loop().cancel(lane.trim_timer);
  if (const auto found = lanes_.find(lane.key()); found != lanes_.end()) lanes_.erase(found);
}

// ---- the end of a transfer --------------------------------------------------------------------

void ConnectionPool::complete(Finished finished, Member& member) {
  const auto transfer = std::static_pointer_cast<Transfer>(std::move(finished.exchange));
  transfer->member = nullptr;
  if (!finished.error) {
    member.has_delivered = true;
    return deliver(*transfer);
  }
  if (finished.is_untouched && transfer->request.is_repeatable && !is_shut_down_) {
    // A server that answers so many per connection and then goes away gets through them all in the
    // end; one that answers none does not.
    if (member.has_delivered && member.codec().is_spent()) transfer->resends = 0;
    if (transfer->resends < kMaxResends) return resend(transfer, *member.lane);
  }
  end(*transfer, std::move(*finished.error).with_context(transfer->url.server()));
}

void ConnectionPool::resend(const std::shared_ptr<Transfer>& transfer, Lane& lane) {
  ++transfer->resends;
  transfer->reset();
  enqueue(transfer, lane, true);
  // A server that closed one idle connection has probably closed them all: a fresh one is surer.
  for (Member* const member : std::vector(lane.resting)) {
    member->is_retired = true;
    net_->loop().post([weak = member->weak_self()] {
      if (const auto alive = weak.lock())
        alive->close(connection_error("the connection may be stale"));
    });
  }
  lane.resting.clear();
}

void ConnectionPool::deliver(Transfer& transfer) {
  if (!transfer.response.headers.contains("content-encoding")) {
    return end(transfer, std::move(transfer.response));
  }
  const auto decode = [](Response response, std::size_t limit) -> Result<Response> {
    const auto coding = response.headers.find("content-encoding");
    TINKER_TRY(response.body, decode_content(*coding, std::move(response.body), limit));
    return response;
  };
  const std::size_t limit = transfer.request.max_response_bytes;
  if (transfer.response.body.size() <= kInlineDecodeBytes) {
    return end(transfer, decode(std::move(transfer.response), limit));
  }
  net_->loop().cancel(transfer.timer);
  transfer.is_done = true;
  workers_->post([decode,
                  limit,
                  response = std::move(transfer.response),
                  promise = std::move(transfer.promise)]() mutable {
    promise.set(decode(std::move(response), limit));
  });
}

void ConnectionPool::end(Transfer& transfer, Result<Response> result) {
  net_->loop().cancel(transfer.timer);
  transfer.is_done = true;
  transfer.promise.set(std::move(result));
}

void ConnectionPool::withdraw(Transfer& transfer) {
  if (Lane* const lane = std::exchange(transfer.lane, nullptr)) {
    lane->waiting.erase(transfer.place);
    drop_if_empty(*lane);
  } else if (Member* const member = std::exchange(transfer.member, nullptr)) {
    member->cancel(transfer);
  }
}

void ConnectionPool::cancel(const std::shared_ptr<Transfer>& transfer) {
  if (transfer->is_done) return;
  end(*transfer, Error{.code = ErrorCode::cancelled, .message = "cancelled by the caller"});
  withdraw(*transfer);
}

void ConnectionPool::fail_waiting(Lane& lane, const Error& error, std::size_t count) {
  for (; count > 0 && !lane.waiting.empty(); --count) {
    const auto transfer = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    transfer->lane = nullptr;
    end(*transfer, error.with_context(lane.origin.server()));
  }
}

void ConnectionPool::fail_waiting_for(Lane& lane, const Error& failure) {
  if (lane.waiting.size() <= lane.opening) return;  // the others have attempts of their own
  if (failure.code != ErrorCode::timed_out) {
    // A shared connection was for all who wait.
    return fail_waiting(lane, failure, lane.speaks_h1 ? 1 : lane.waiting.size());
  }
  // The attempt had the limit of the one it was made for; who allows more gets another attempt.
  const TimePoint now = net_->loop().now();
  for (auto it = lane.waiting.begin(); it != lane.waiting.end();) {
    const auto transfer = *it;
    if (time_after(transfer->last_activity, transfer->request.timeouts.connect) > now) {
      ++it;
      continue;
    }
    it = lane.waiting.erase(it);
    transfer->lane = nullptr;
    end(*transfer, failure.with_context(lane.origin.server()));
  }
}

void ConnectionPool::arm(Transfer& transfer, TimePoint when) {
  // One that fires earlier looks again: cheaper than moving it with every byte.
  if (transfer.timer != async::TimerId()) {
    if (transfer.timer.when <= when) return;
    net_->loop().cancel(transfer.timer);
  }
  const auto self = std::static_pointer_cast<Transfer>(transfer.shared_from_this());
  transfer.timer = net_->loop().schedule(when, [this, weak = std::weak_ptr(self)] {
    if (const auto alive = weak.lock()) on_timer(alive);
  });
}

void ConnectionPool::on_timer(const std::shared_ptr<Transfer>& transfer) {
  transfer->timer = {};
  if (transfer->is_done) return;
  const TimePoint now = net_->loop().now();
  if (deadline(*transfer) > now) return arm(*transfer, next_look(*transfer, now));
  end(*transfer, timeout_error(*transfer).with_context(transfer->url.server()));
  withdraw(*transfer);
}

void ConnectionPool::close_channel(std::uint64_t channel) {
  std::vector<std::shared_ptr<Member>> idle;
  for (const auto& [key, lane] : lanes_) {
    if (key.channel != channel) continue;
    for (const auto& member : lane->members) {
      if (member->is_opening) continue;
      member->is_retired = true;
      if (member->codec().in_flight() == 0) idle.push_back(member);
    }
    lane->resting.clear();
  }
  for (const auto& member : idle) member->close(connection_error("the channel was closed"));
}

void ConnectionPool::shut_down() {
  is_shut_down_ = true;
  // This may be the destructor, where connections cannot report to their owner any more.
  const auto lanes = std::exchange(lanes_, {});
  for (const auto& [key, lane] : lanes) {
    net_->loop().cancel(lane->trim_timer);
    fail_waiting(*lane, gone_away(), lane->waiting.size());
    for (const auto& member : std::vector(lane->members)) {
      if (!member->is_opening) {
        member->codec().end(gone_away());
        collect(*member);
      }
      member->close(gone_away());
    }
  }
}

}  // namespace tinker::http
