// What the next step of a sampler computes: whose rows, and in which pages.

#include <algorithm>
#include <map>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/sampler.h"
#include "tinker/engine.h"

namespace tinker::engine {

/// Room in the pages for the tokens before `tokens`. Others may have to give way.
bool Sampler::find_room(Sequence& sequence, std::size_t tokens) {
  sequence.reserve(pages_for(tokens));
  while (sequence.pages.size() < pages_for(tokens)) {
    if (const auto page = pages_.take()) {
      sequence.add(*page, pages_.data(*page));
    } else if (!preempt(sequence)) {
      return false;
    }
  }
  return true;
}

bool Sampler::preempt(const Sequence& asking) {
  std::map<std::string_view, std::size_t> held;  // pages of each tenant
  for (const auto& request : requests_) {
    for (const auto& sequence : request->sequences) held[request->tenant] += sequence->pages.size();
  }
  const std::string_view tenant = asking.request->tenant;
  const bool has_others = held[tenant] > asking.pages.size();
  Sequence* chosen = nullptr;
  bool is_younger = true;
  for (const auto& request : requests_ | std::views::reverse) {
    for (const auto& other : request->sequences | std::views::reverse) {
      if (other.get() == &asking) {
        is_younger = false;
        continue;
      }
      const bool is_planned = std::ranges::any_of(
          chunks_, [&](const Chunk& chunk) { return chunk.sequence == other.get(); });
      if (is_planned || other->pages.empty()) continue;
      const bool is_own = request->tenant == tenant;
      const std::size_t theirs = held[request->tenant];
      const bool may = is_younger && (is_own || !has_others);
      const bool is_richer = !is_own && theirs - other->pages.size() > held[tenant];
      if (!may && !is_richer) continue;
      if (chosen == nullptr || theirs > held[chosen->request->tenant]) chosen = other.get();
    }
  }
  if (chosen == nullptr) return false;
  release(*chosen);
  return true;
}

bool Sampler::is_writing() const noexcept {
  return std::ranges::any_of(requests_, [](const auto& request) { return request->has_begun; });
}

/// Sequences that are being written before those whose prompts wait, each in the order in which
/// they came.
std::map<std::string, Sampler::TenantQueue> Sampler::tenant_queues() const {
  std::map<std::string, TenantQueue> out;
  for (const bool is_writing : {true, false}) {
    for (const auto& request : requests_) {
      for (const auto& sequence : request->sequences) {
        if (!sequence->is_over && sequence->has_one_left() == is_writing)
          out[request->tenant].sequences.push_back(sequence.get());
      }
    }
  }
  return out;
}

/// Rows go to the tenant that was given least, a token that is being written or a block of a prompt
/// at a time.
void Sampler::plan_chunks(std::size_t prompt_rows) {
  chunks_.clear();
  last_step_ = {};
  Budget left = {.rows = options_.batch_rows, .prompt = std::max(kKeyBlock, prompt_rows)};
  auto queues = tenant_queues();
  for (const auto& [tenant, queue] : queues) tenants_.arrive(tenant);
  while (left.rows > 0) {
    const std::string* const next = tenants_.next();
    if (next == nullptr) break;
    const std::string tenant = *next;
    auto& queue = queues[tenant];  // none is left of a step that had no memory, perhaps
    if (queue.sequences.empty()) {
      tenants_.leave(tenant);
      continue;
    }
    const std::size_t rows = plan_chunk(queue, left);
    if (rows > 0) tenants_.charge(tenant, static_cast<double>(rows));
  }
  for (const auto& [tenant, queue] : queues) tenants_.leave(tenant);
  // Rows with the same adapter side by side; otherwise the order does not matter.
  std::ranges::sort(chunks_, std::less<>(), [](const Chunk& chunk) {
    const auto& request = *chunk.sequence->request;
    return std::tuple(request.adapter.get(), request.id, chunk.sequence->index);
  });
  tell_progress();
}

/// A request of several sequences goes on as long as one of them does.
void Sampler::tell_progress() {
  const Request* before = nullptr;
  for (const auto& chunk : chunks_) {  // those of a request side by side
    const auto* const request = chunk.sequence->request;
    if (std::exchange(before, request) == request) continue;
    ++last_step_.requests;
    if (request->progress) request->progress->set(SampleProgress::Stage::computing);
  }
}

std::size_t Sampler::plan_chunk(TenantQueue& queue, Budget& left) {
  auto& sequence = *queue.sequences.front();
  const bool is_writing = !queue.chunk && sequence.has_one_left();
  const std::size_t most = is_writing ? left.rows : std::min({left.rows, left.prompt, kKeyBlock});
  const auto leave_it = [&](std::size_t rows) {
    queue.sequences.pop_front();
    queue.chunk.reset();
    return rows;
  };
  if (most == 0) return leave_it(0);
  if (sequence.computed == 0 && sequence.pages.empty()) find_pages(sequence);
  const std::size_t first =
      queue.chunk ? chunks_[*queue.chunk].first + chunks_[*queue.chunk].count : sequence.computed;
  const std::size_t count = std::min(sequence.tokens.size() - first, most);
  if (!find_room(sequence, first + count)) {
    if (const auto& progress = sequence.request->progress)
      progress->set(SampleProgress::Stage::no_room);
    return leave_it(0);
  }
  if (!queue.chunk) {
    queue.chunk = chunks_.size();
    chunks_.push_back({.sequence = &sequence, .first = first, .count = 0});
  }
  chunks_[*queue.chunk].count += count;
  left.rows -= count;
  if (is_writing) {
    last_step_.written += count;
  } else {
    last_step_.prompt += count;
    left.prompt -= count;
  }
  return first + count == sequence.tokens.size() ? leave_it(count) : count;
}

/// What is in the cache of its tokens already. The last token must be computed, and so must those
/// whose logits are asked for.
void Sampler::find_pages(Sequence& sequence) {
  auto& request = *sequence.request;
  std::size_t usable = sequence.tokens.size() - 1;
  if (!request.has_begun) {
    if (!request.targets.empty() || !request.alternatives.empty()) usable = 0;
    usable = std::min(usable, request.first_scored - 1);
  }
  sequence.reserve(pages_for(usable));
  for (const auto page : pages_.find(request.adapter, std::span(sequence.tokens).first(usable)))
    sequence.add(page, pages_.data(page));
  sequence.computed = sequence.pages.size() * kKeyBlock;
  if (request.is_counted) return;
  request.response.prompt_cache_hit_tokens = static_cast<std::int32_t>(sequence.computed);
  request.is_counted = true;
}

}  // namespace tinker::engine
