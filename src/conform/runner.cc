#include "conform/runner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"

namespace tinker::conform {

Result<std::vector<Law>> choose_laws(std::span<const std::string> names, bool only_fast) {
  const auto all = all_laws();
  const auto is_named = [](const Law& law, const std::string& name) {
    return law.id == name || law.group() == name;
  };
  for (const auto& name : names) {
    if (std::ranges::any_of(all, [&](const Law& law) { return is_named(law, name); })) continue;
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat(
                     "unknown law '", name, "', expected an id or a group that --list shows")};
  }
  std::vector<Law> out;
  std::ranges::copy_if(all, std::back_inserter(out), [&](const Law& law) {
    if (only_fast && law.cost == Cost::slow) return false;
    return names.empty() ||
           std::ranges::any_of(names, [&](const auto& name) { return is_named(law, name); });
  });
  return out;
}

namespace {

Verdict check(Probe& probe, const Law& law) {
  const auto started = std::chrono::steady_clock::now();
  probe.spent() = {};
  auto evidence = law.check(probe);
  Verdict verdict = {
      .law = law, .took = std::chrono::steady_clock::now() - started, .spent = probe.spent()};
  if (evidence) {
    verdict.evidence = *std::move(evidence);
  } else {
    const bool is_skipped = evidence.error().code == ErrorCode::cancelled;
    verdict.outcome = is_skipped ? Outcome::skip : Outcome::fail;
    verdict.evidence = evidence.error().message;
  }
  return verdict;
}

void add(Tally& tally, const Verdict& verdict) {
  ++(verdict.outcome == Outcome::pass   ? tally.passed
     : verdict.outcome == Outcome::fail ? tally.failed
                                        : tally.skipped);
  tally.spent.trained_tokens += verdict.spent.trained_tokens;
  tally.spent.sampled_tokens += verdict.spent.sampled_tokens;
}

}  // namespace

Tally check_laws(Probe& probe,
                 std::span<const Law> laws,
                 const std::atomic<bool>& interrupted,
                 const std::function<void(const Verdict&)>& report) {
  Tally tally;
  for (const Law& law : laws) {
    if (interrupted) break;
    const Verdict verdict = check(probe, law);
    if (interrupted && verdict.outcome == Outcome::skip) break;
    add(tally, verdict);
    report(verdict);
    if (!interrupted) std::ranges::move(probe.clean_up(), std::back_inserter(tally.left_behind));
  }
  const auto reason = interrupted ? "interrupted" : tally.failed > 0 ? "errored" : "success";
  std::ranges::move(probe.close(reason), std::back_inserter(tally.left_behind));
  return tally;
}

}  // namespace tinker::conform
