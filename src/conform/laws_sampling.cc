#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "conform/lab.h"

// What is drawn, and what is said about it (SERVER 2.3).

namespace tinker::conform {

namespace {

const Stop kNoStop = Tokens{};

ModelInput prompt_of(std::size_t tokens) {
  const Tokens& text = reference_text();
  return ModelInput::from_tokens(
      Tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(tokens)));
}

/// A request for `tokens` more of the whole reference text.
SampleRequest drawn(std::int64_t num_samples, std::int64_t tokens, std::optional<Seed> seed = {}) {
  return {.num_samples = num_samples,
          .prompt = ModelInput::from_tokens(reference_text()),
          .sampling_params = {.max_tokens = tokens, .seed = seed, .stop = kNoStop}};
}

/// A sampler that has learned the reference text, so that some tokens are likelier than others, and
/// the model that it is of.
struct Trained {
  Trainee model;
  Sampler sampler;
};

Result<Trained> trained(Probe& probe) {
  constexpr int kMostSteps = 12;
  constexpr double kLearned = -2;  // the logprob of the fourth token
  TINKER_TRY(auto params, adam(probe));
  params.learning_rate *= 4;
  TINKER_TRY(auto model, Trainee::create(probe));
  for (int i = 0; i < kMostSteps; ++i) {
    TINKER_TRY(const auto output, model.run({.data = {weighted(1.0)}}));
    TINKER_TRY(const auto logprobs, output_of(output, 0));
    if (logprobs.size() > 2 && logprobs[2] > kLearned) break;
    TINKER_TRY(model.step(params));
  }
  TINKER_TRY(auto sampler, Sampler::of(model));
  return Trained{.model = std::move(model), .sampler = std::move(sampler)};
}

SampleRequest greedy(std::int64_t tokens) {
  return {.prompt = prompt_of(3),
          .sampling_params = {.max_tokens = tokens, .stop = kNoStop, .temperature = 0}};
}

std::vector<Tokens> tokens_of(const SampleResponse& response) {
  std::vector<Tokens> out;
  for (const auto& sequence : response.sequences) out.push_back(sequence.tokens);
  return out;
}

std::string text_of(const std::vector<Tokens>& sequences) {
  std::string out;
  for (const auto& tokens : sequences) out += (out.empty() ? "" : " ") + conform::text_of(tokens);
  return out;
}

/// A request for what not every server has: `undecided` where it is refused as it should be.
Result<SampleResponse> optional_sample(Sampler& sampler, const SampleRequest& request) {
  const auto answer = sampler.post(request);
  TINKER_TRY(answer);
  if (!answer->ok()) {
    TINKER_TRY(auto evidence, refused(answer));
    return undecided("refused: " + evidence);
  }
  TINKER_TRY(const auto handle, sampler.probe().accepted(answer));
  TINKER_TRY(const auto end, sampler.probe().settle(handle.request_id, kProto));
  if (!end.is_proto) {
    TINKER_TRY(auto evidence, failed_as_users(sampler.probe(), answer));
    return undecided("refused: " + evidence);
  }
  return sampler.probe().proto_result<SampleResponse>(handle.request_id);
}

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
  const auto first = std::find(all.begin(), all.end(), all[2]);
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

// ---- logprobs ---------------------------------------------------------------------------------

Evidence one_truth(Probe& probe) {
  TINKER_TRY(auto t, trained(probe));
  SampleRequest request = drawn(1, 6, Seed(2));
  TINKER_TRY(const auto response, t.sampler.sample(request));
  const auto& sequence = response.sequences.at(0);
  const Numbers sampled(sequence.logprobs.begin(), sequence.logprobs.end());
  Tokens text = reference_text();
  text.insert(text.end(), sequence.tokens.begin(), sequence.tokens.end());
  const auto end_of = [&](const Numbers& all) {
    return Numbers(all.end() - static_cast<std::ptrdiff_t>(sampled.size()), all.end());
  };
  TINKER_TRY(const auto forward, t.model.logprobs(text));
  TINKER_TRY(const auto prompt, t.sampler.prompt_logprobs(text));
  TINKER_TRY(expect_same(
      probe, "logprobs of sampled tokens, beside a forward pass", sampled, end_of(forward)));
  TINKER_TRY(expect_same(probe, "prompt_logprobs, beside a forward pass", prompt, forward));
  return base::concat("largest differences ",
                      largest(difference(sampled, end_of(forward))),
                      " and ",
                      largest(difference(prompt, forward)));
}

Evidence base_is_fresh(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  TINKER_TRY(const auto base_model, sampler.prompt_logprobs(reference_text()));
  TINKER_TRY(const auto fresh, fresh_logprobs(probe));
  TINKER_TRY(
      expect_same(probe, "logprobs of a new adapter, beside its base model", fresh, base_model));
  return held();
}

Evidence snapshots(Probe& probe) {
  TINKER_TRY(auto t, trained(probe));
  TINKER_TRY(const auto before, t.sampler.prompt_logprobs(reference_text()));
  TINKER_TRY(const auto params, adam(probe));
  TINKER_TRY(t.model.run({.data = {weighted(1.0)}}));
  TINKER_TRY(t.model.step(params));
  TINKER_TRY(const auto after, t.sampler.prompt_logprobs(reference_text()));
  TINKER_TRY(expect_same(probe, "logprobs of a sampler after its model trained on", after, before));
  TINKER_TRY(auto newer, Sampler::of(t.model));
  TINKER_TRY(const auto moved, newer.prompt_logprobs(reference_text()));
  TINKER_TRY(const auto forward, t.model.logprobs(reference_text()));
  TINKER_TRY(expect_same(probe, "logprobs of a sampler of the newest weights", moved, forward));
  return held();
}

Evidence prompt_logprobs(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  SampleRequest request = drawn(1, 1);
  TINKER_TRY(const auto without, sampler.sample(request));
  if (!without.prompt_logprobs.empty() || without.topk_prompt_logprobs) {
    return broken("prompt logprobs came although nobody asked for them");
  }
  request.prompt_logprobs = true;
  TINKER_TRY(const auto with, sampler.sample(request));
  if (with.prompt_logprobs.size() != reference_text().size() || with.prompt_logprob(0)) {
    return broken(base::concat("prompt_logprobs of ",
                               reference_text().size(),
                               " tokens has ",
                               with.prompt_logprobs.size(),
                               " entries, expected one for each, the first of them none"));
  }
  for (std::size_t i = 1; i < with.prompt_logprobs.size(); ++i) {
    if (with.prompt_logprob(i).value_or(1) > 0) {
      return broken(base::concat("entry ", i, " of prompt_logprobs is ", with.prompt_logprobs[i]));
    }
  }
  return held();
}

Evidence chunked_prompt(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  const Tokens& text = reference_text();
  SampleRequest request = drawn(1, 1);
  request.prompt.chunks = {EncodedTextChunk{.tokens = Tokens(text.begin(), text.begin() + 4)},
                           EncodedTextChunk{.tokens = Tokens(text.begin() + 4, text.end())}};
  request.prompt_logprobs = true;
  TINKER_TRY(const auto response, sampler.sample(request));
  const auto& all = response.prompt_logprobs;
  if (all.size() != text.size()) {
    return broken(base::concat("a prompt of two chunks has ", all.size(), " prompt_logprobs"));
  }
  TINKER_TRY(const auto whole, sampler.prompt_logprobs(text));
  TINKER_TRY(expect_same(probe,
                         "prompt_logprobs of a prompt of two chunks",
                         Numbers(all.begin() + 1, all.end()),
                         whole));
  return held();
}

Evidence tempering(Probe& probe) {
  constexpr double kTemperature = 2;
  TINKER_TRY(auto t, trained(probe));
  const SampleRequest request = {
      .num_samples = 64,
      .prompt = prompt_of(3),
      .sampling_params = {
          .max_tokens = 1, .seed = Seed(1), .stop = kNoStop, .temperature = kTemperature}};
  TINKER_TRY(const auto response, t.sampler.sample(request));
  std::map<std::int32_t, double> reported;
  for (const auto& each : response.sequences) reported[each.tokens.at(0)] = each.logprobs.at(0);
  // The likeliest and the least likely of them say most.
  std::vector<std::pair<double, std::int32_t>> ranked;
  for (const auto& [token, logprob] : reported) ranked.emplace_back(logprob, token);
  std::ranges::sort(ranked);
  if (ranked.size() > 4) ranked.erase(ranked.begin() + 2, ranked.end() - 2);
  Numbers found;
  Numbers own;
  for (const auto& [logprob, token] : ranked) {
    Tokens text = {reference_text()[0], reference_text()[1], reference_text()[2], token};
    TINKER_TRY(const auto logprobs, t.sampler.prompt_logprobs(text));
    found.push_back(logprob - ranked.front().first);
    own.push_back(logprobs.back());
  }
  const double first = own.front();
  for (double& each : own) each -= first;
  Numbers tempered = own;
  for (double& each : tempered) each /= kTemperature;
  if (largest(difference(found, tempered)) <= probe.tolerance()) return std::string("tempered");
  if (largest(difference(found, own)) <= probe.tolerance()) return std::string("not tempered");
  return broken(base::concat("logprobs of samples at temperature 2, less the first of them: ",
                             conform::text_of(found),
                             ", expected ",
                             conform::text_of(tempered),
                             " (tempered) or ",
                             conform::text_of(own),
                             " (the model's own)"));
}

// ---- more read-outs ---------------------------------------------------------------------------

/// Whether cells are logprobs that fall, and list `token` with `logprob` if it is likely enough.
Result<void> expect_row(const Probe& probe,
                        const std::vector<TopkLogprobs::Cell>& row,
                        std::int32_t token,
                        double logprob) {
  const double tolerance = probe.tolerance();
  bool is_right = !row.empty() && row.front().second <= tolerance;
  bool is_listed = false;
  std::string text;
  for (std::size_t i = 0; i < row.size(); ++i) {
    text += base::concat(i > 0 ? ", " : "", row[i].first, ": ", row[i].second);
    if (i > 0 && row[i].second > row[i - 1].second) is_right = false;
    if (row[i].first != token) continue;
    is_listed = true;
    if (std::abs(row[i].second - logprob) > tolerance) is_right = false;
  }
  if (!is_listed && is_right && logprob > row.back().second + tolerance) is_right = false;
  if (is_right) return {};
  return broken(
      base::concat("top logprobs {",
                   text,
                   "} beside token ",
                   token,
                   " of logprob ",
                   logprob,
                   ", expected logprobs that fall, that token among them if it is likelier "
                   "than the last, and with that logprob"));
}

Evidence topk_prompt(Probe& probe) {
  TINKER_TRY(auto t, trained(probe));
  SampleRequest request = drawn(1, 1);
  request.prompt_logprobs = true;
  request.topk_prompt_logprobs = 3;
  TINKER_TRY(const auto response, optional_sample(t.sampler, request));
  const auto& top = response.topk_prompt_logprobs;
  if (!top || top->k != 3 || top->length != reference_text().size() || top->at(0)) {
    return broken(
        "topk_prompt_logprobs 3: expected 3 cells for each prompt token, none for the first");
  }
  for (std::size_t i = 1; i < top->length; ++i) {
    const auto row = top->at(i);
    if (!row || row->size() != 3) return broken(base::concat("position ", i, " lacks its 3 cells"));
    TINKER_TRY(expect_row(probe, *row, reference_text()[i], response.prompt_logprobs.at(i)));
  }
  return held();
}

Evidence topk_sample(Probe& probe) {
  TINKER_TRY(auto t, trained(probe));
  SampleRequest request = drawn(1, 4, Seed(1));
  request.prompt = prompt_of(3);
  request.topk_sample_logprobs = 3;
  TINKER_TRY(const auto response, optional_sample(t.sampler, request));
  const auto& sequence = response.sequences.at(0);
  const auto& top = sequence.topk_logprobs;
  if (!top || top->k != 3 || top->length != sequence.tokens.size()) {
    return broken("topk_sample_logprobs 3: expected 3 cells for each sampled token, or a refusal");
  }
  for (std::size_t i = 0; i < top->length; ++i) {
    const auto row = top->at(i);
    if (!row || row->size() != 3) return broken(base::concat("token ", i, " lacks its 3 cells"));
    TINKER_TRY(expect_row(probe, *row, sequence.tokens[i], sequence.logprobs.at(i)));
  }
  return held();
}

Evidence target_prompt(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  const Tokens& text = reference_text();
  const auto rows = static_cast<std::int64_t>(reference_positions());
  std::vector<std::int64_t> targets;
  for (std::size_t i = 1; i < text.size(); ++i) targets.insert(targets.end(), {text[i], -1});
  SampleRequest request = drawn(1, 1);
  request.target_prompt_logprobs = TensorData(Buffer(targets), TensorData::Shape{rows, 2});
  TINKER_TRY(const auto response, optional_sample(sampler, request));
  const auto& found = response.target_prompt_logprobs;
  if (!found || found->dtype() != TensorDtype::float32 || found->size() != targets.size()) {
    return broken(
        "target_prompt_logprobs: expected a float32 tensor of the same shape, or a refusal");
  }
  TINKER_TRY(const auto own, sampler.prompt_logprobs(text));
  Numbers expected;
  for (const double each : own) expected.insert(expected.end(), {each, 0.0});
  const Numbers values(found->floats().begin(), found->floats().end());
  TINKER_TRY(expect_same(
      probe, "target_prompt_logprobs of the prompt's own tokens and of -1", values, expected));
  return held();
}

Evidence last_n(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  SampleRequest request = drawn(1, 1);
  request.prompt_logprobs = true;
  request.prompt_logprobs_last_n = 2;
  TINKER_TRY(const auto response, optional_sample(sampler, request));
  const auto size = reference_text().size();
  if (response.prompt_logprobs.size() != size) {
    return broken(base::concat(
        "prompt_logprobs has ", response.prompt_logprobs.size(), " entries, expected ", size));
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (response.prompt_logprob(i).has_value() != (i + 2 >= size)) {
      return broken(base::concat("prompt_logprobs_last_n 2 of ",
                                 size,
                                 " tokens: entry ",
                                 i,
                                 " is ",
                                 response.prompt_logprobs[i],
                                 ", expected only the last 2 scored"));
    }
  }
  return held();
}

Evidence alt_tokens(Probe& probe) {
  TINKER_TRY(auto sampler, Sampler::of_base_model(probe));
  SampleRequest request = drawn(1, 1, Seed(1));
  request.prompt_alt_tokens_k = 2;
  TINKER_TRY(const auto response, optional_sample(sampler, request));
  const auto& found = response.prompt_alt_tokens;
  const auto cells = 2 * reference_positions();
  if (!found || found->tokens.size() != cells || found->logprobs.size() != cells) {
    return broken(base::concat("prompt_alt_tokens_k 2: expected ",
                               cells,
                               " draws, or a refusal: "
                               "clients raise on a result without them"));
  }
  return held();
}

constexpr auto kLaws = std::to_array<Law>({
    {"sampling.lengths",
     "num_samples and max_tokens are what comes, with a logprob for each token",
     lengths},
    {"sampling.stop_token", "A stop token ends a sequence and is part of it", stop_token},
    {"sampling.stop_string", "A stop string ends a sequence", stop_string},
    {"sampling.seeds", "A seed repeats its samples, another one does not", seeds},
    {"sampling.no_seed", "Without a seed, samples differ from request to request", no_seed},
    {"sampling.diversity", "The samples of one request differ, also with a seed", diversity},
    {"sampling.greedy",
     "temperature 0, top_k 1 and a tiny top_p choose the same tokens",
     greedy_choice},
    {"sampling.greedy_is_likeliest",
     "temperature 0 chooses the likeliest token",
     greedy_is_likeliest},
    {"sampling.batch_independence",
     "A seeded sample does not depend on those beside it",
     batch_independence},
    {"sampling.one_truth",
     "Sampler, prompt scores and forward pass say the same logprobs",
     one_truth},
    {"sampling.base_is_fresh", "A new adapter is its base model", base_is_fresh},
    {"sampling.snapshots", "A sampler keeps its weights while its model trains on", snapshots},
    {"sampling.prompt_logprobs",
     "prompt_logprobs has an entry for each token, none for the first, "
     "and comes only when asked for",
     prompt_logprobs},
    {"sampling.chunked_prompt", "Chunks of a prompt are one text", chunked_prompt},
    {"sampling.tempering",
     "Logprobs of samples are the model's own, or all of them divided by the "
     "temperature and normalised",
     tempering},
    {"sampling.topk_prompt",
     "topk_prompt_logprobs fall, and agree with prompt_logprobs",
     topk_prompt},
    {"sampling.topk_sample", "topk_sample_logprobs fall, and agree with the samples", topk_sample},
    {"sampling.target_prompt",
     "target_prompt_logprobs agree with prompt_logprobs; -1 asks for "
     "nothing",
     target_prompt},
    {"sampling.last_n", "prompt_logprobs_last_n scores the last tokens only", last_n},
    {"sampling.alt_tokens",
     "prompt_alt_tokens_k draws as many at each position, or is refused",
     alt_tokens},
});

}  // namespace

std::span<const Law> sampling_laws() {
  return kLaws;
}

}  // namespace tinker::conform
