#include <array>
#include <chrono>

#include "server/store_parts.h"

/// How the catalogue names the kinds.
template <>
inline constexpr std::array<std::string_view, 5>
    tinker::detail::kEnumNames<tinker::server::UsageRecord::Kind> = {
        "training", "sampling_prefill", "sampling_prefill_cached", "sampling_sample", "checkpoint"};

// What happened: audit and usage.
namespace tinker::server {
namespace {

AuditRecord read_audit(Row& row) {
  return {.at = row.instant(),
          .owner = row.text(),
          .event = row.text(),
          .details = row.json<StringMap>()};
}

UsageRecord read_usage(Row& row) {
  return {.hour = row.instant(),
          .owner = row.text(),
          .session_id = row.text(),
          .project_id = row.text(),
          .base_model = row.text(),
          .kind = row.name<UsageRecord::Kind>(),
          .count = row.integer()};
}

}  // namespace

Result<void> Store::add_audit(const AuditRecord& entry) {
  TINKER_TRY(const auto details, wire::encode_json(entry.details));
  TINKER_TRY(parts_->database.run("INSERT INTO audit VALUES(?, ?, ?, ?)",
                                  {entry.at, entry.owner, entry.event, details}));
  return {};
}

Result<std::vector<AuditRecord>> Store::audit(std::string_view owner,
                                              Instant from,
                                              Instant to,
                                              std::string_view event_prefix) {
  auto& database = parts_->database;
  return read_all(database,
                  database.query("SELECT * FROM audit WHERE owner = ?1 AND at >= ?2 AND at < ?3 "
                                 "AND substr(event, 1, length(?4)) = ?4 ORDER BY at, rowid",
                                 {owner, from, to, event_prefix}),
                  read_audit);
}

Result<void> Store::add_usage(std::span<const UsageRecord> counts) {
  auto& database = parts_->database;
  TINKER_TRY(auto transaction, Transaction::begin(database));
  for (const auto& usage : counts) {
    const Instant hour = std::chrono::floor<std::chrono::hours>(usage.hour);
    TINKER_TRY(
        database.run("INSERT INTO usage VALUES(?, ?, ?, ?, ?, ?, ?) "
                     "ON CONFLICT DO UPDATE SET count = count + excluded.count",
                     {hour,
                      usage.owner,
                      usage.session_id,
                      usage.project_id,
                      usage.base_model,
                      to_string(usage.kind),
                      usage.count}));
  }
  return transaction.commit();
}

Result<std::vector<UsageRecord>> Store::usage(std::string_view owner, Instant from, Instant to) {
  auto& database = parts_->database;
  return read_all(database,
                  database.query("SELECT * FROM usage WHERE owner = ? AND hour >= ? AND hour < ? "
                                 "ORDER BY hour, session_id, project_id, base_model, kind",
                                 {owner, from, to}),
                  read_usage);
}

Result<void> Store::forget_before(Instant before) {
  auto& database = parts_->database;
  TINKER_TRY(auto transaction, Transaction::begin(database));
  TINKER_TRY(database.run("DELETE FROM audit WHERE at < ?", {before}));
  TINKER_TRY(database.run("DELETE FROM usage WHERE hour < ?", {before}));
  TINKER_TRY(
      database.run("DELETE FROM runs WHERE last_request_at < ? "
                   "AND run_id NOT IN (SELECT run_id FROM checkpoints) "
                   "AND session_id NOT IN (SELECT session_id FROM sessions "
                   "WHERE finish_reason IS NULL AND NOT has_expired)",
                   {before}));
  TINKER_TRY(
      database.run("DELETE FROM sessions WHERE created_at < ? "
                   "AND (finish_reason IS NOT NULL OR has_expired) "
                   "AND session_id NOT IN (SELECT session_id FROM runs)",
                   {before}));
  TINKER_TRY(database.run(
      "DELETE FROM samplers WHERE session_id NOT IN (SELECT session_id FROM sessions)"));
  return transaction.commit();
}

}  // namespace tinker::server
