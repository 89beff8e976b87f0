#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conform/probe.h"

namespace tinker::conform {

enum class Outcome { pass, fail, skip };

/// What came of one law.
struct Verdict {
  Law law = {};
  Outcome outcome = Outcome::pass;
  std::string evidence = {};
  std::chrono::duration<double> took = {};
  Spent spent = {};
};

struct Tally {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  Spent spent = {};
  std::vector<std::string> left_behind = {};  ///< What the server would not delete.
};

/// The laws that `names` names, each an id or a group, all where there is none; an error for a name
/// that is neither. Without `slow` ones on request.
Result<std::vector<Law>> choose_laws(std::span<const std::string> names, bool only_fast);

/// Checks one law after the other and tells `report` of each. Cleans up after each, and finishes
/// the session.
Tally check_laws(Probe& probe,
                 std::span<const Law> laws,
                 const std::atomic<bool>& interrupted,
                 const std::function<void(const Verdict&)>& report);

}  // namespace tinker::conform
