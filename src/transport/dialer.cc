#include "transport/dialer.h"

#include <array>

#include "base/strings.h"

namespace tinker::http {

namespace {

constexpr auto kNextAttemptAfter = std::chrono::milliseconds(250);

}  // namespace

Dialer::Dialer(async::EventLoop& loop, boost::asio::io_context& io, Resolver& resolver)
    : loop_(loop), io_(io), resolver_(resolver) {}

Dialer::~Dialer() {
  loop_.cancel(timer_);
}

std::vector<Address> Dialer::interleave(std::vector<Address> addresses) {
  std::vector<Address> out;
  out.reserve(addresses.size());
  std::array<std::size_t, 2> next = {};
  const auto take = [&](bool is_v6) {
    std::size_t& i = next[is_v6 ? 1 : 0];
    while (i < addresses.size() && addresses[i].is_v6 != is_v6) ++i;
    if (i < addresses.size()) out.push_back(addresses[i++]);
  };
  bool is_v6 = !addresses.empty() && addresses.front().is_v6;
  while (out.size() < addresses.size()) {
    take(is_v6);
    is_v6 = !is_v6;
  }
  return out;
}

void Dialer::dial(std::string host, std::uint16_t port, Done done) {
  host_ = std::move(host);
  port_ = port;
  done_ = std::move(done);
  resolver_.resolve(
      host_, port_, [weak = std::weak_ptr(self_)](Result<std::vector<Address>> addresses) {
        if (const auto self = weak.lock()) (*self)->on_resolved(std::move(addresses));
      });
}

void Dialer::dial_unix(const std::string& path, Done done) {
  done_ = std::move(done);
  attempts_.push_back(std::make_unique<AsioSocket>(io_));
  attempts_.back()->connect_unix(path, [weak = std::weak_ptr(self_)](const Result<void>& result) {
    const auto self = weak.lock();
    if (!self) return;
    if (!result.ok()) return (*self)->finish(result.error());
    (*self)->finish(std::unique_ptr<Socket>(std::move((*self)->attempts_.front())));
  });
}

void Dialer::on_resolved(Result<std::vector<Address>> addresses) {
  if (!addresses.ok()) return finish(std::move(addresses).error());
  addresses_ = interleave(*std::move(addresses));
  try_next();
}

void Dialer::try_next() {
  loop_.cancel(timer_);
  const std::size_t attempt = attempts_.size();
  attempts_.push_back(std::make_unique<AsioSocket>(io_));
  attempts_.back()->connect(addresses_[attempt],
                            [weak = std::weak_ptr(self_), attempt](const Result<void>& result) {
                              if (const auto self = weak.lock())
                                (*self)->on_connected(attempt, result);
                            });
  if (attempts_.size() == addresses_.size()) return;
  timer_ = loop_.schedule_after(kNextAttemptAfter, [weak = std::weak_ptr(self_)] {
    if (const auto self = weak.lock()) (*self)->try_next();
  });
}

void Dialer::on_connected(std::size_t attempt, const Result<void>& result) {
  if (result.ok()) return finish(std::unique_ptr<Socket>(std::move(attempts_[attempt])));
  attempts_[attempt].reset();
  if (failed_++ == 0) first_failure_ = result.error();
  if (attempts_.size() < addresses_.size()) return try_next();
  if (failed_ < addresses_.size()) return;
  // The host may have moved.
  resolver_.forget(host_, port_);
  if (failed_ > 1) {
    first_failure_.message +=
        base::concat(", and so it went with ", failed_ - 1, " more of host ", host_);
  }
  finish(first_failure_);
}

void Dialer::finish(Result<std::unique_ptr<Socket>> result) {
  loop_.cancel(timer_);
  attempts_.clear();
  auto done = std::move(done_);
  done(std::move(result));
}

}  // namespace tinker::http
