#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/fair_shares.h"
#include "engine/forward.h"
#include "engine/head.h"
#include "engine/memory.h"
#include "engine/page_pool.h"
#include "engine/token_choice.h"
#include "tinker/result.h"
#include "tinker/types/sample.h"

namespace tinker {
class SampleProgress;
}

namespace tinker::engine {

struct SamplerOptions {
  std::size_t cache_bytes = std::size_t{1} << 30U;  ///< For keys and values.
  std::size_t batch_rows = 512;                     ///< Tokens that go through the layers together.
  /// What an answer may take. A request whose answer could be larger is refused.
  std::size_t answer_bytes = std::size_t{1} << 30U;
  /// The bytes of a token, for stop strings. Without it they are refused.
  std::function<std::string(std::int32_t token)> token_bytes = {};
};

/// What to draw, and from what.
struct SampleJob {
  std::shared_ptr<const Adapter> adapter = {};  ///< None: the base model.
  SampleRequest request = {};
  std::uint64_t seed = 0;                         ///< What the draws come from.
  std::string tenant = {};                        ///< Whose share of the rows it is computed in.
  std::shared_ptr<SampleProgress> progress = {};  ///< Null: nobody wants to know.
};

/// Draws tokens for many requests at a time. Each step takes one token of every sequence that is
/// being written, and as much of the waiting prompts as fits beside them. Where not all fit, rows
/// are divided evenly between tenants, and a tenant's own written tokens come before its prompts.
/// What a request gets depends on nothing but itself.
///
/// Thread-compatible.
class Sampler {
 public:
  using Id = std::uint64_t;
  using Done = std::function<void(Result<SampleResponse>)>;

  Sampler(std::shared_ptr<const Model> model, ThreadPool& threads, const SamplerOptions& options);

  /// `done` is called by a later `step`, and may submit and cancel. Fails with `invalid_argument`,
  /// and names the parameter.
  Result<Id> submit(SampleJob job, Done done);
  /// Its pages are free when this returns, and `done` is not called.
  void cancel(Id id);
  /// Computes one batch, with at most so many rows of prompts, and at least `kKeyBlock` of them.
  /// Returns whether there is more to do. What throws for lack of memory can be called again.
  bool step(std::size_t prompt_rows = std::numeric_limits<std::size_t>::max());

  /// Rows of the last step: tokens of prompts, and of sequences that are being written.
  struct StepRows {
    std::size_t prompt = 0;
    std::size_t written = 0;
    std::size_t requests = 0;  ///< That have a part of them.
  };
  [[nodiscard]] const StepRows& last_step() const noexcept { return last_step_; }

  /// Whether a sequence is being written: its prompt is computed.
  [[nodiscard]] bool is_writing() const noexcept;

  [[nodiscard]] const PagePool& pages() const noexcept { return pages_; }
  /// What the pages in use take.
  [[nodiscard]] std::size_t cache_bytes() const noexcept {
    return pages_.in_use() * layout_.page_bytes();
  }

 private:
  struct Request;
  /// One sequence of a request, from its prompt on.
  struct Sequence {
    Request* request = nullptr;
    std::size_t index = 0;                  // of the sample
    std::vector<std::int32_t> tokens = {};  // prompt and what was drawn
    std::vector<PageId> pages = {};
    std::vector<std::byte*> memory = {};  // of the pages
    std::size_t computed = 0;             // tokens whose keys and values are in the pages
    std::string tail = {};                // the last bytes that were drawn, for stop strings
    bool is_over = false;
    SampledSequence result = {};

    /// Room for so many pages: until then adding them cannot fail, and none is lost.
    void reserve(std::size_t count) {
      make_room(pages, count);
      make_room(memory, count);
    }
    void add(PageId page, std::byte* its_memory) noexcept {
      pages.push_back(page);
      memory.push_back(its_memory);
    }
    /// All but the last token are computed.
    [[nodiscard]] bool has_one_left() const noexcept {
      return tokens.size() - computed == 1 && !pages.empty();
    }
  };
  struct Request {
    Id id = 0;
    std::string tenant = {};
    std::shared_ptr<const Adapter> adapter = {};
    SampleRequest asked = {};
    std::vector<std::int32_t> prompt = {};
    std::uint64_t seed = 0;
    std::shared_ptr<SampleProgress> progress = {};
    std::size_t most_tokens = 0;
    std::vector<std::int32_t> stop_ids = {};
    std::vector<std::string> stop_strings = {};
    std::size_t first_scored = 0;            // prompt position; the prompt's length: none
    std::vector<std::int64_t> targets = {};  // (prompt - 1, k), -1 for nothing
    SampleResponse response = {};
    std::vector<std::int32_t> alternatives = {};
    std::vector<float> alternative_logprobs = {};
    std::vector<float> target_logprobs = {};
    std::vector<std::unique_ptr<Sequence>> sequences = {};
    bool is_counted = false;  // what was found of the prompt
    bool has_begun = false;   // the prompt is computed, and all sequences exist
    std::optional<Error> failure = {};
    Done done = {};
  };
  /// Tokens of one sequence in a batch.
  struct Chunk {
    Sequence* sequence = nullptr;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  /// A row whose logits are read.
  struct Needed {
    std::size_t row = 0;
    Sequence* sequence = nullptr;
    std::size_t position = 0;
  };

  Result<void> read_length(Request& request) const;
  Result<void> read_stops(Request& request) const;
  Result<void> check_answer(const Request& request) const;
  Result<void> read_scores(Request& request) const;
  Result<void> read_targets(Request& request, const TensorData& targets) const;
  /// What is left of the rows of a step, and of those that prompts may take.
  struct Budget {
    std::size_t rows = 0;
    std::size_t prompt = 0;
  };
  /// What a tenant wants computed, in its order; `chunk` is the place of the first one in
  /// `chunks_`, once it has one.
  struct TenantQueue {
    std::deque<Sequence*> sequences = {};
    std::optional<std::size_t> chunk = {};
  };
  void plan_chunks(std::size_t prompt_rows);
  void tell_progress();
  [[nodiscard]] std::map<std::string, TenantQueue> tenant_queues() const;
  /// Returns how many rows the first sequence of the queue was given.
  std::size_t plan_chunk(TenantQueue& queue, Budget& left);
  void find_pages(Sequence& sequence);
  bool find_room(Sequence& sequence, std::size_t tokens);
  /// Takes the pages of another sequence, the youngest that may be taken of the tenant that has
  /// most. It shares them perhaps, so that none is free for it. Who gives way: what came later, of
  /// the same tenant; whoever it is, of a tenant that has more pages even without it; and what came
  /// later, of any tenant, if the one that asks is the last of its own. So nobody gives way to
  /// somebody who would have to give way in turn, and the oldest of all always goes on.
  bool preempt(const Sequence& asking);
  void release(Sequence& sequence) noexcept;
  void compute_batch();
  void fill_batch();
  void compute_layers();
  void compute_heads();
  void fail(Request& request, Error why) noexcept;
  void use_row(const Needed& need, const Distribution& distribution);
  void score(Request& request, std::size_t position, const Distribution& plain);
  void begin_samples(Sequence& first);
  void draw(Sequence& sequence, const Distribution& distribution);
  [[nodiscard]] bool stops(Sequence& sequence, std::int32_t token) const;
  void finish_requests();
  static Result<SampleResponse> answer_of(Request& request);
  static SampleResponse response_of(Request& request);

  std::shared_ptr<const Model> model_;
  ThreadPool& threads_;
  SamplerOptions options_;
  KvLayout layout_;
  PagePool pages_;
  Forward forward_;
  Head head_;
  Id next_id_ = 1;
  std::deque<std::unique_ptr<Request>> requests_;  // in the order they came

  FairShares<std::string> tenants_;

  // Of one step:
  StepRows last_step_;
  std::vector<Chunk> chunks_;
  std::vector<TokenRow> rows_;
  std::vector<AdapterRun> runs_;
  std::vector<std::span<std::byte* const>> row_pages_;
  std::vector<Needed> needed_;

  PassShape shape_;
  Arena arena_;
  FloatRows x_;
  LayerState state_;
  ElementRows normed_;
  ElementRows low_;
  FloatRows logits_;  // (kHeadRows, vocabulary)
};

}  // namespace tinker::engine
