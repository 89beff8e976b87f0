#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"

namespace tinker::conform {

class Probe;

/// What a law found: the value says what was seen where the law held, and may be empty. The error
/// says what was sent, what was expected and what came (`broken`), or why nothing could be said
/// about this server (`undecided`).
using Evidence = Result<std::string>;

inline Evidence held() {
  return std::string();
}

/// The server broke the law.
Error broken(std::string evidence);
/// The law does not apply: a flag is off, or the server lacks what is optional.
Error undecided(std::string reason);

/// What checking a law asks of the server. `fast` ones take a few requests on a few tokens; `slow`
/// ones wait on purpose, or send hundreds of requests.
enum class Cost { fast, slow };

/// One sentence that is true of every Tinker server, and how to see whether it is.
struct Law {
  std::string_view id = {};  ///< "order.first_chunk_last": the group and the law.
  std::string_view sentence = {};
  Evidence (*check)(Probe& probe) = nullptr;
  Cost cost = Cost::fast;

  [[nodiscard]] std::string_view group() const noexcept { return id.substr(0, id.find('.')); }
};

// The tables, one per concept.
std::span<const Law> wire_laws();
std::span<const Law> order_laws();
std::span<const Law> futures_laws();
std::span<const Law> losses_laws();
std::span<const Law> optimizer_laws();
std::span<const Law> sampling_laws();
std::span<const Law> logprobs_laws();
std::span<const Law> checkpoints_laws();
std::span<const Law> catalogue_laws();
std::span<const Law> refusals_laws();
std::span<const Law> limits_laws();

/// All of them, in the order in which they are checked.
std::vector<Law> all_laws();

}  // namespace tinker::conform
