#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "engine/fair_shares.h"

namespace tinker::engine {

/// Work that is done one after another: that of one trainer.
using LineId = std::uint64_t;

struct PolicyOptions {
  double training_weight = 1;
  double sampling_weight = 1;
};

/// Decides what an engine does next. Its time is divided between training and sampling by weights
/// while both want it. Training time is divided evenly between tenants, and a tenant's time evenly
/// between its lines. `FairShares` says within what bounds; between tenants and lines, a turn is
/// what a line does until another may go on, which is a micro-batch. (A step of sampling serves
/// many requests at once; the sampler divides its rows between tenants.)
///
/// Thread-compatible.
class Policy {
 public:
  /// A step of the first work of a line, or of the sampler.
  struct Choice {
    std::optional<LineId> line = {};  ///< None: the sampler.
  };

  explicit Policy(const PolicyOptions& options) : options_(options) {}

  /// Whether there is something to sample.
  void want_sampling(bool wants);
  /// The line has work, which is this tenant's.
  void arrive(const std::string& tenant, LineId line);
  /// The line, which had work, has none.
  void leave(LineId line);
  /// Whose work a line has, which it has.
  [[nodiscard]] const std::string& tenant_of(LineId line) const { return tenant_of_.at(line); }

  /// Nothing if there is nothing to do. `may` says whether a line can go on now. Requires that one
  /// of those that have work can.
  [[nodiscard]] std::optional<Choice> next(const std::function<bool(LineId)>& may) const;
  /// What `next` chose took so many seconds.
  void charge(const Choice& choice, double seconds);

 private:
  enum class Kind { training, sampling };
  PolicyOptions options_;
  FairShares<Kind> kinds_;
  FairShares<std::string> tenants_;
  std::map<std::string, FairShares<LineId>> lines_;  // of each tenant that has work
  std::map<LineId, std::string> tenant_of_;          // of each line that has work
};

}  // namespace tinker::engine
