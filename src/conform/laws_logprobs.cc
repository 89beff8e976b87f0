#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "conform/drawing.h"

// What is said about tokens, drawn or given (SERVER 2.3, PROTOCOL 9.18).

namespace tinker::conform {

namespace {

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
  ranked.reserve(reported.size());
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
    {.id = "logprobs.one_truth",
     .sentence = "Sampler, prompt scores and forward pass say the same logprobs",
     .check = one_truth},
    {.id = "logprobs.base_is_fresh",
     .sentence = "A new adapter is its base model",
     .check = base_is_fresh},
    {.id = "logprobs.snapshots",
     .sentence = "A sampler keeps its weights while its model trains on",
     .check = snapshots},
    {.id = "logprobs.prompt",
     .sentence = "prompt_logprobs has an entry for each token, none for the first, "
                 "and comes only when asked for",
     .check = prompt_logprobs},
    {.id = "logprobs.chunked_prompt",
     .sentence = "Chunks of a prompt are one text",
     .check = chunked_prompt},
    {.id = "logprobs.tempering",
     .sentence = "Logprobs of samples are the model's own, or all of them divided by the "
                 "temperature and normalised",
     .check = tempering},
    {.id = "logprobs.topk_prompt",
     .sentence = "topk_prompt_logprobs fall, and agree with prompt_logprobs",
     .check = topk_prompt},
    {.id = "logprobs.topk_sample",
     .sentence = "topk_sample_logprobs fall, and agree with the samples",
     .check = topk_sample},
    {.id = "logprobs.target_prompt",
     .sentence = "target_prompt_logprobs agree with prompt_logprobs; -1 asks for "
                 "nothing",
     .check = target_prompt},
    {.id = "logprobs.last_n",
     .sentence = "prompt_logprobs_last_n scores the last tokens only",
     .check = last_n},
    {.id = "logprobs.alt_tokens",
     .sentence = "prompt_alt_tokens_k draws as many at each position, or is refused",
     .check = alt_tokens},
});

}  // namespace

std::span<const Law> logprobs_laws() {
  return kLaws;
}

}  // namespace tinker::conform
