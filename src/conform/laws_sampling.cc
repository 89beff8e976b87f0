#include <algorithm>
#include <array>
#include <set>

#include "conform/drawing.h"

// What is drawn (SERVER 2.3).

namespace tinker::conform {

namespace {

// ---- how much is drawn ------------------------------------------------------------------------

Evidence lengths(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  for (const std::int64_t most : {1, 5}) {
    TINKER_TRY(const auto response, sampler.sample(drawn(2, most)));
    if (response.sequences.size() != 2) {
      return broken(base::concat("num_samples 2 gave ", response.sequences.size(), " sequences"));
    }
    for (const auto& each : response.sequences) {
      if (std::ssize(each.tokens) != most || !(each.stop_reason == StopReason::length) ||
          each.logprobs.size() != each.tokens.size()) {
        return broken(base::concat("max_tokens ",
                                   most,
                                   " and stop [] gave ",
                                   each.tokens.size(),
                                   " tokens, ",
                                   each.logprobs.size(),
                                   " logprobs and stop_reason ",
                                   each.stop_reason.text(),
                                   ", expected ",
                                   most,
                                   " and length"));
      }
    }
  }
  return held();
}

Evidence stop_token(Probe& probe) {
  TINKER_TRY(auto t, trained(probe));
  TINKER_TRY(const auto whole, t.sampler.sample(greedy(4)));
  const Tokens all = whole.sequences.at(0).tokens;
  if (all.size() < 3) return broken("greedy tokens " + conform::text_of(all) + ", expected 4");
  const auto first = std::ranges::find(all, all[2]);
  const Tokens expected(all.begin(), first + 1);
  SampleRequest request = greedy(4);
  request.sampling_params.stop = Tokens{all[2]};
  TINKER_TRY(const auto response, t.sampler.sample(request));
  const auto& found = response.sequences.at(0);
  if (found.tokens != expected || !(found.stop_reason == StopReason::stop)) {
    return broken(base::concat("stop [",
                               all[2],
                               "] on the way of ",
                               conform::text_of(all),
                               " gave ",
                               conform::text_of(found.tokens),
                               " and stop_reason ",
                               found.stop_reason.text(),
                               ", expected ",
                               conform::text_of(expected),
                               " and stop"));
  }
  return held();
}

Evidence stop_string(Probe& probe) {
  constexpr std::int64_t kMost = 24;
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  SampleRequest request = drawn(4, kMost);
  std::vector<std::string> printable;
  for (char c = ' '; c <= '~'; ++c) printable.emplace_back(1, c);
  request.sampling_params.stop = printable;
  TINKER_TRY(const auto response, optional_sample(sampler, request));
  int stopped = 0;
  for (const auto& each : response.sequences) {
    const bool is_stopped = each.stop_reason == StopReason::stop;
    stopped += is_stopped ? 1 : 0;
    if (!is_stopped && std::ssize(each.tokens) != kMost) {
      return broken(base::concat("stop_reason ",
                                 each.stop_reason.text(),
                                 " after ",
                                 each.tokens.size(),
                                 " of ",
                                 kMost,
                                 " tokens"));
    }
  }
  if (stopped > 0) return base::concat(stopped, " of 4 stopped");
  return broken(base::concat("with every printable character as a stop string, 4 samples of ",
                             kMost,
                             " tokens all ran to their end: ",
                             text_of(tokens_of(response))));
}

// ---- chance -----------------------------------------------------------------------------------

Evidence seeds(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(const auto first, sampler.sample(drawn(2, 12, Seed(5))));
  TINKER_TRY(const auto again, sampler.sample(drawn(2, 12, Seed(5))));
  TINKER_TRY(const auto other, sampler.sample(drawn(2, 12, Seed(6))));
  if (tokens_of(first) != tokens_of(again)) {
    return broken(base::concat(
        "seed 5 gave ", text_of(tokens_of(first)), ", then ", text_of(tokens_of(again))));
  }
  if (tokens_of(first) == tokens_of(other)) {
    return broken("seeds 5 and 6 both gave " + text_of(tokens_of(first)));
  }
  return held();
}

Evidence no_seed(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(const auto first, sampler.sample(drawn(2, 12)));
  TINKER_TRY(const auto second, sampler.sample(drawn(2, 12)));
  if (tokens_of(first) != tokens_of(second)) return held();
  return broken("two requests without a seed both gave " + text_of(tokens_of(first)));
}

Evidence diversity(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(const auto response, sampler.sample(drawn(6, 8, Seed(5))));
  const auto all = tokens_of(response);
  const std::set<Tokens> different(all.begin(), all.end());
  if (different.size() > all.size() / 2) return held();
  return broken(base::concat("6 samples of 8 tokens with one seed are ",
                             different.size(),
                             " different ones: ",
                             text_of(all)));
}

Evidence greedy_choice(Probe& probe) {
  TINKER_TRY(auto t, trained(probe));
  SampleRequest request = greedy(4);
  TINKER_TRY(const auto zero, t.sampler.sample(request));
  request.sampling_params = {.max_tokens = 4, .seed = Seed(3), .stop = kNoStop, .top_k = 1};
  TINKER_TRY(const auto first_only, t.sampler.sample(request));
  request.sampling_params = {.max_tokens = 4, .seed = Seed(4), .stop = kNoStop, .top_p = 1e-6};
  TINKER_TRY(const auto tiny_nucleus, t.sampler.sample(request));
  if (tokens_of(zero) != tokens_of(first_only) || tokens_of(zero) != tokens_of(tiny_nucleus)) {
    return broken(base::concat("temperature 0 gave ",
                               text_of(tokens_of(zero)),
                               ", top_k 1 ",
                               text_of(tokens_of(first_only)),
                               ", top_p 1e-6 ",
                               text_of(tokens_of(tiny_nucleus)),
                               ", expected the same"));
  }
  return text_of(tokens_of(zero));
}

Evidence greedy_is_likeliest(Probe& probe) {
  TINKER_TRY(auto t, trained(probe));
  TINKER_TRY(const auto response, t.sampler.sample(greedy(1)));
  SampleRequest several = {.num_samples = 16,
                           .prompt = prompt_of(3),
                           .sampling_params = {.max_tokens = 1, .seed = Seed(1), .stop = kNoStop}};
  TINKER_TRY(const auto others, t.sampler.sample(several));
  Tokens text = {72, 101, 108, response.sequences.at(0).tokens.at(0)};
  TINKER_TRY(const auto best, t.sampler.prompt_logprobs(text));
  for (const auto& each : others.sequences) {
    if (each.logprobs.at(0) <= best.back() + probe.tolerance()) continue;
    return broken(base::concat("temperature 0 chose a token of logprob ",
                               best.back(),
                               ", while token ",
                               each.tokens.at(0),
                               " has ",
                               each.logprobs.at(0)));
  }
  return held();
}

Evidence batch_independence(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(const auto alone, sampler.sample(drawn(1, 8, Seed(11))));
  std::vector<Call> calls;
  for (int i = 0; i < 8; ++i) {
    const auto request = i == 3 ? drawn(1, 8, Seed(11)) : drawn(1, 2 + 3 * i, Seed(100 + i));
    TINKER_TRY(auto body, wire::encode_json(sampler.complete(request)));
    calls.push_back({.path = "/api/v1/asample", .body = std::move(body)});
  }
  auto answers = probe.endpoint().send_all(std::move(calls));
  SampleResponse among;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    TINKER_TRY(const auto handle, probe.accepted(answers[i]));
    TINKER_TRY(auto response, probe.proto_result<SampleResponse>(handle.request_id));
    if (i == 3) among = std::move(response);
  }
  if (tokens_of(alone) != tokens_of(among)) {
    return broken(base::concat("seed 11 gave ",
                               text_of(tokens_of(alone)),
                               " alone and ",
                               text_of(tokens_of(among)),
                               " among 8 requests"));
  }
  return held();
}

constexpr auto kLaws = std::to_array<Law>({
    {.id = "sampling.lengths",
     .sentence = "num_samples and max_tokens are what comes, with a logprob for each token",
     .check = lengths},
    {.id = "sampling.stop_token",
     .sentence = "A stop token ends a sequence and is part of it",
     .check = stop_token},
    {.id = "sampling.stop_string",
     .sentence = "A stop string ends a sequence",
     .check = stop_string},
    {.id = "sampling.seeds",
     .sentence = "A seed repeats its samples, another one does not",
     .check = seeds},
    {.id = "sampling.no_seed",
     .sentence = "Without a seed, samples differ from request to request",
     .check = no_seed},
    {.id = "sampling.diversity",
     .sentence = "The samples of one request differ, also with a seed",
     .check = diversity},
    {.id = "sampling.greedy",
     .sentence = "temperature 0, top_k 1 and a tiny top_p choose the same tokens",
     .check = greedy_choice},
    {.id = "sampling.greedy_is_likeliest",
     .sentence = "temperature 0 chooses the likeliest token",
     .check = greedy_is_likeliest},
    {.id = "sampling.batch_independence",
     .sentence = "A seeded sample does not depend on those beside it",
     .check = batch_independence},
});

}  // namespace

std::span<const Law> sampling_laws() {
  return kLaws;
}

}  // namespace tinker::conform
