#include "server/limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace tinker::server {

namespace {

using Limits = LocalServerLimits;
using Unit = LimitRow::Unit;
using Suffix = std::pair<std::string_view, std::uint64_t>;

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
constexpr std::array kRows = {
    LimitRow{"connections",
             &Limits::connections,
             Unit::count,
             "connections at a time; more wait until one closes"},
    LimitRow{
        "streams", &Limits::streams, Unit::count, "requests at a time of one HTTP/2 connection"},
    LimitRow{"head_bytes", &Limits::head_bytes, Unit::bytes, "a request's head"},
    LimitRow{"head_fields", &Limits::head_fields, Unit::count, "headers of a request"},
    LimitRow{"target_bytes", &Limits::target_bytes, Unit::bytes, "path and query of a request"},
    LimitRow{"body_bytes", &Limits::body_bytes, Unit::bytes, "a body as it travels"},
    LimitRow{"json_bytes",
             &Limits::json_bytes,
             Unit::bytes,
             "a body, unpacked, that is no training data"},
    LimitRow{"training_bytes",
             &Limits::training_bytes,
             Unit::bytes,
             "a body of training data, unpacked"},
    LimitRow{"incoming_bytes",
             &Limits::incoming_bytes,
             Unit::bytes,
             "bodies over 64KiB of requests that are not answered yet; beyond, more get 429"},
    LimitRow{"head_time", &Limits::head_time, Unit::time, "for a head to come, TLS included"},
    LimitRow{"body_time", &Limits::body_time, Unit::time, "for each KiB of a body to come"},
    LimitRow{"body_total_time",
             &Limits::body_total_time,
             Unit::time,
             "for a whole body to come that is kept in memory: any but a file of an upload"},
    LimitRow{"idle_time", &Limits::idle_time, Unit::time, "between two requests of a connection"},
    LimitRow{
        "write_time", &Limits::write_time, Unit::time, "for each KiB of an answer to be taken"},
    LimitRow{"operations",
             &Limits::operations,
             Unit::count,
             "requests that were accepted and are not finished; beyond, more get 429"},
    LimitRow{"accepted_bytes",
             &Limits::accepted_bytes,
             Unit::bytes,
             "training data that was accepted and is not finished; beyond, more gets 429"},
    LimitRow{"samples", &Limits::samples, Unit::count, "samples of one request"},
    LimitRow{"sessions",
             &Limits::sessions,
             Unit::count,
             "sessions of an owner that are in memory: open ones, and for the session timeout "
             "those that ended or were asked for; beyond, 429"},
    LimitRow{"runs",
             &Limits::runs,
             Unit::count,
             "training runs of a session, also those that were unloaded or refused"},
    LimitRow{"losses",
             &Limits::losses,
             Unit::count,
             "custom losses of a session, also those that were refused"},
    LimitRow{
        "ephemeral_saves",
        &Limits::ephemeral_saves,
        Unit::count,
        "weights that a training run keeps to sample from though no name leads to them; beyond, "
        "the oldest go"},
    LimitRow{"adapters",
             &Limits::adapters,
             Unit::count,
             "adapters of checkpoints that stay in memory to sample from"},
    LimitRow{"uploads",
             &Limits::uploads,
             Unit::count,
             "uploads of adapters that an owner has not finished"},
    LimitRow{"upload_bytes",
             &Limits::upload_bytes,
             Unit::bytes,
             "a file of an upload, which is a body, too"},
    LimitRow{"chunk_time",
             &Limits::chunk_time,
             Unit::time,
             "that a request waits for those with lower numbers"},
    LimitRow{"poll_time", &Limits::poll_time, Unit::time, "that a poll is held, then it gets 408"},
    LimitRow{
        "batch_poll_time", &Limits::batch_poll_time, Unit::time, "that a batched poll is held"},
    LimitRow{"delivered_time",
             &Limits::delivered_time,
             Unit::time,
             "that a delivered result can be had again, then its id gets 410"},
    LimitRow{"unfetched_time",
             &Limits::unfetched_time,
             Unit::time,
             "that a result waits for its client"},
    LimitRow{"sessionless_time",
             &Limits::sessionless_time,
             Unit::time,
             "the same, of a sample that names no sampling session"},
    LimitRow{"result_bytes",
             &Limits::result_bytes,
             Unit::bytes,
             "results that wait for their clients; beyond, new requests get 429"},
    LimitRow{"delivered_bytes",
             &Limits::delivered_bytes,
             Unit::bytes,
             "delivered results that are kept; beyond, the oldest goes"},
    LimitRow{"announced_bytes",
             &Limits::announced_bytes,
             Unit::bytes,
             "results at least this long are announced by their size first"},
    LimitRow{"expired_ids",
             &Limits::expired_ids,
             Unit::count,
             "results that are known to have gone; beyond, the oldest id is unknown"},
    LimitRow{"link_time",
             &Limits::link_time,
             Unit::time,
             "that a signed link to an archive or an export is good"},
    LimitRow{"upload_time",
             &Limits::upload_time,
             Unit::time,
             "that an upload of an adapter can be sent and finished"},
    LimitRow{"token_time",
             &Limits::token_time,
             Unit::time,
             "that a token is good which a key was exchanged for"},
    LimitRow{"history_time",
             &Limits::history_time,
             Unit::time,
             "that the catalogue keeps sessions without checkpoints, the audit and usage"},
    LimitRow{"sweep_time",
             &Limits::sweep_time,
             Unit::time,
             "between two removals of checkpoints and uploads that have expired"},
    LimitRow{"drain_time",
             &Limits::drain_time,
             Unit::time,
             "that what runs has to finish when `tinker serve` ends"},
};
// NOLINTEND(modernize-use-designated-initializers)

constexpr std::array kSizes = {
    Suffix{"GiB", Limits::kGibi}, Suffix{"MiB", Limits::kMebi}, Suffix{"KiB", Limits::kKibi}};
constexpr std::array kTimes = {
    Suffix{"h", 3'600'000}, Suffix{"min", 60'000}, Suffix{"s", 1000}, Suffix{"ms", 1}};
constexpr std::uint64_t kMostCount = 1'000'000'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50U;
constexpr std::uint64_t kMostTime = std::uint64_t{3650} * 24 * 3'600'000;

std::span<const Suffix> suffixes(Unit unit) {
  if (unit == Unit::count) return {};
  return unit == Unit::bytes ? std::span<const Suffix>(kSizes) : std::span<const Suffix>(kTimes);
}

std::uint64_t most(Unit unit) {
  if (unit == Unit::count) return kMostCount;
  return unit == Unit::bytes ? kMostBytes : kMostTime;
}

std::uint64_t get(const Limits& limits, const LimitRow& row) {
  if (const auto* const size = std::get_if<LimitRow::Size>(&row.member)) return limits.*(*size);
  return static_cast<std::uint64_t>((limits.*std::get<LimitRow::Time>(row.member)).count());
}

void put(Limits& limits, const LimitRow& row, std::uint64_t value) {
  if (const auto* const size = std::get_if<LimitRow::Size>(&row.member)) {
    limits.*(*size) = value;
  } else {
    limits.*std::get<LimitRow::Time>(row.member) = Limits::Time(value);
  }
}

/// In the largest unit that leaves a whole number.
std::string text_of(Unit unit, std::uint64_t value) {
  const auto units = suffixes(unit);
  const auto fits = [value](const Suffix& suffix) {
    return value != 0 && value % suffix.second == 0;
  };
  const auto found = std::ranges::find_if(units, fits);
  return found == units.end() ? base::concat(value)
                              : base::concat(value / found->second, found->first);
}

/// Nothing for what is none, or is beyond 64 bits.
std::optional<std::uint64_t> parse(Unit unit, std::string_view text) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  const auto units = suffixes(unit);
  if (text.empty()) text = unit == Unit::time ? "s" : "";
  if (text.empty() || (unit == Unit::bytes && text == "B")) return number;
  const auto found = std::ranges::find(units, text, &Suffix::first);
  if (found == units.end()) return std::nullopt;
  if (number > std::numeric_limits<std::uint64_t>::max() / found->second) return std::nullopt;
  return number * found->second;
}

Error wrong(const LimitRow& row, std::string_view value) {
  constexpr std::array<std::string_view, 3> kForms = {
      "a whole number", "a size such as 64MiB", "a time such as 30s, 500ms, 10min or 24h"};
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("limit ",
                                  row.name,
                                  ": expected ",
                                  kForms.at(static_cast<std::size_t>(row.unit)),
                                  " from ",
                                  row.unit == Unit::time ? "1ms" : "1",
                                  " to ",
                                  text_of(row.unit, most(row.unit)),
                                  ", found '",
                                  value,
                                  "'")};
}

bool is_in_range(const LimitRow& row, std::uint64_t value) {
  return value >= 1 && value <= most(row.unit);
}

}  // namespace

std::span<const LimitRow> limit_rows() noexcept {
  return kRows;
}

std::string limit_text(const LocalServerLimits& limits, const LimitRow& row) {
  return text_of(row.unit, get(limits, row));
}

Result<void> set_limit(LocalServerLimits& limits, std::string_view name, std::string_view value) {
  const auto* const row = std::ranges::find(kRows, name, &LimitRow::name);
  if (row == kRows.end()) {
    std::string known;
    for (const auto& other : kRows) known += base::concat(known.empty() ? "" : ", ", other.name);
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("limit '", name, "': expected one of ", known)};
  }
  const auto number = parse(row->unit, value);
  if (!number || !is_in_range(*row, *number)) return wrong(*row, value);
  put(limits, *row, *number);
  return {};
}

Result<void> check_limits(const LocalServerLimits& limits) {
  for (const auto& row : kRows) {
    // A negative time has become a number beyond all limits.
    if (!is_in_range(row, get(limits, row))) return wrong(row, limit_text(limits, row));
  }
  return {};
}

}  // namespace tinker::server
