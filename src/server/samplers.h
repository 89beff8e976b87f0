#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "async/scope.h"
#include "server/model_registry.h"
#include "server/records.h"
#include "server/sessions.h"
#include "tinker/engine.h"

namespace tinker::server {

class LiveRun;

/// Clients number the requests of a clone from here on (PROTOCOL 7.11).
inline constexpr std::int64_t kClone = 1'000'000'000;

/// A sampling session: what it draws from.
struct Sampler {
  SamplerRecord record = {};
  std::shared_ptr<Session> session = {};  ///< Null: of one sample that names its weights.
  /// What `record.model_path` named when the session was made: saving again under that name changes
  /// nothing here, and the latest few of a session keep its files.
  std::optional<CheckpointRecord> checkpoint = {};
  /// Weights that are nowhere on the disk: of a save without a name.
  std::optional<AdapterSnapshot> ephemeral = {};
  MemoryHold hold = {};             ///< For those.
  std::weak_ptr<LiveRun> run = {};  ///< Whose they are: its journal has them, too.
  bool is_revived = false;          ///< It was made in an earlier life of the server.
  bool is_dropped = false;          ///< It held such weights, and newer ones took their place.
  std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();
  std::int64_t clones = 0;  // that joined
};

class Samplers {
 public:
  /// The id is the record's. Its scope hangs below the session's.
  std::shared_ptr<Sampler> add(SamplerRecord record, std::shared_ptr<Session> session);
  [[nodiscard]] std::shared_ptr<Sampler> find(const std::string& sampler_id) const;
  /// Its work goes on.
  void remove(const std::string& sampler_id) { samplers_.erase(sampler_id); }
  /// Ends the work of all samplers of a session and forgets them.
  void remove_of_session(std::string_view session_id, const Error& reason);
  [[nodiscard]] std::size_t size() const noexcept { return samplers_.size(); }
  /// Weights that are nowhere on the disk.
  [[nodiscard]] std::vector<AdapterSnapshot> ephemeral() const;

 private:
  std::unordered_map<std::string, std::shared_ptr<Sampler>> samplers_ = {};
};

}  // namespace tinker::server
