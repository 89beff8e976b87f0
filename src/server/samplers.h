#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "async/scope.h"
#include "async/task.h"
#include "server/records.h"
#include "server/sessions.h"
#include "tinker/engine.h"

namespace tinker::server {

class Service;

/// A sampling session: what it draws from, and the requests it has seen.
struct Sampler {
  SamplerRecord record = {};
  /// Weights that are nowhere on the disk: of a save without a name.
  std::optional<AdapterSnapshot> ephemeral = {};
  std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();
  std::unordered_map<std::int64_t, Accepted> accepted = {};  // by seq_id
  std::int64_t clones = 0;                                   // that joined
};

/// Adapters of checkpoints that are sampled from, kept while they are used. Loop thread only.
class AdapterCache {
 public:
  explicit AdapterCache(std::size_t capacity) : capacity_(capacity) {}
  [[nodiscard]] std::optional<AdapterSnapshot> find(const std::string& folder);
  void add(const std::string& folder, AdapterSnapshot snapshot);
  void remove(const std::string& folder);

 private:
  using Entries = std::list<std::pair<std::string, AdapterSnapshot>>;
  std::size_t capacity_;
  Entries entries_ = {};  // used last first
  std::unordered_map<std::string, Entries::iterator> by_folder_ = {};
};

class Samplers {
 public:
  /// The id is the record's. Its scope hangs below the session's.
  std::shared_ptr<Sampler> add(SamplerRecord record,
                               std::optional<AdapterSnapshot> ephemeral,
                               const std::shared_ptr<async::Scope>& parent);
  [[nodiscard]] std::shared_ptr<Sampler> find(const std::string& sampler_id) const;
  void remove_of_session(std::string_view session_id);
  [[nodiscard]] std::size_t size() const noexcept { return samplers_.size(); }

 private:
  std::unordered_map<std::string, std::shared_ptr<Sampler>> samplers_ = {};
};

}  // namespace tinker::server
