// What the codecs cost. `./dev bench wire` runs this beside the official SDK (wire_peer.py) on the
// same work and prints ratios. Benchmark names are the names of the rows.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "tinker/rng.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/sample.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker {
namespace {

constexpr std::size_t kDatums = 512;
constexpr std::size_t kTokensPerDatum = 2048;
constexpr std::size_t kPromptTokens = 65536;
constexpr std::size_t kSequences = 16;
constexpr std::size_t kTokensPerSequence = 16384;
constexpr std::uint64_t kVocabulary = 150000;

std::vector<std::int32_t> random_tokens(Rng& rng, std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::int32_t>(rng.below(kVocabulary));
  return tokens;
}

std::vector<float> random_logprobs(Rng& rng, std::size_t count) {
  std::vector<float> logprobs(count);
  for (auto& logprob : logprobs) logprob = static_cast<float>(-8.0 * rng.uniform());
  return logprobs;
}

/// What a training loop has before it calls: tokens, targets and weights of each example.
struct Examples {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<std::int64_t>> targets;
  std::vector<std::vector<float>> weights;

  Examples() {
    Rng rng(1);
    for (std::size_t i = 0; i < kDatums; ++i) {
      tokens.push_back(random_tokens(rng, kTokensPerDatum));
      targets.emplace_back(tokens.back().begin(), tokens.back().end());
      weights.emplace_back(kTokensPerDatum, 1.0F);
    }
  }
};

/// Tokens are copied into the request, tensors refer to the caller's memory.
ForwardBackwardRequest build_request(const Examples& examples) {
  const auto length = static_cast<std::int64_t>(kTokensPerDatum);
  ForwardBackwardRequest request = {.model_id = "run:train:0", .seq_id = 1};
  request.data.reserve(kDatums);
  for (std::size_t i = 0; i < kDatums; ++i) {
    request.data.push_back(
        {.model_input = ModelInput::from_tokens(examples.tokens[i]),
         .loss_fn_inputs = {{"target_tokens", TensorData::borrow(examples.targets[i], {length})},
                            {"weights", TensorData::borrow(examples.weights[i], {length})}}});
  }
  return request;
}

void build_and_serialise(benchmark::State& state) {
  const Examples examples;
  std::size_t size = 0;
  for (auto _ : state) {
    const auto body = wire::encode_proto(build_request(examples)).value();
    size = body.size();
    benchmark::DoNotOptimize(body.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(size) * state.iterations());
}
BENCHMARK(build_and_serialise)
    ->Name("build+serialise forward_backward")
    ->Unit(benchmark::kMillisecond);

void serialise_prompt(benchmark::State& state) {
  Rng rng(2);
  const SampleRequest request = {
      .prompt = ModelInput::from_tokens(random_tokens(rng, kPromptTokens)),
      .sampling_params = {.max_tokens = 64, .temperature = 0.7},
      .sampling_session_id = "session:sample:0",
      .seq_id = 0,
      .prompt_logprobs = false,
  };
  std::size_t size = 0;
  for (auto _ : state) {
    const auto body = wire::encode_json(request).value();
    size = body.size();
    benchmark::DoNotOptimize(body.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(size) * state.iterations());
}
BENCHMARK(serialise_prompt)->Name("serialise prompt")->Unit(benchmark::kMillisecond);

/// Times `decode_proto` on a body it may keep; making that body is not part of the work.
template <typename T>
void parse(benchmark::State& state, const std::string& body) {
  for (auto _ : state) {
    std::string received = body;
    const auto start = std::chrono::steady_clock::now();
    auto parsed = wire::decode_proto<T>(std::move(received)).value();
    benchmark::DoNotOptimize(parsed);
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(body.size()) * state.iterations());
}

void parse_sample_response(benchmark::State& state) {
  Rng rng(3);
  SampleResponse response;
  for (std::size_t i = 0; i < kSequences; ++i) {
    response.sequences.push_back({.tokens = random_tokens(rng, kTokensPerSequence),
                                  .logprobs = random_logprobs(rng, kTokensPerSequence)});
  }
  parse<SampleResponse>(state, wire::encode_proto(response).value());
}
BENCHMARK(parse_sample_response)
    ->Name("parse sample response")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void parse_forward_backward_output(benchmark::State& state) {
  Rng rng(4);
  ForwardBackwardOutput output = {.loss_fn_output_type = "TorchLossReturn",
                                  .metrics = {{"loss:sum", 3.5}}};
  for (std::size_t i = 0; i < kDatums; ++i) {
    output.loss_fn_outputs.push_back({{"logprobs", random_logprobs(rng, kTokensPerDatum)}});
  }
  parse<ForwardBackwardOutput>(state, wire::encode_proto(output).value());
}
BENCHMARK(parse_forward_backward_output)
    ->Name("parse forward_backward output")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

/// The bound: moving as many bytes as a forward_backward request has into fresh memory.
void copy_memory(benchmark::State& state) {
  const std::string source(kDatums * kTokensPerDatum * 16, 'x');
  for (auto _ : state) {
    std::string copy;
    copy.reserve(source.size());
    copy.append(source);
    benchmark::DoNotOptimize(copy.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(source.size()) * state.iterations());
}
BENCHMARK(copy_memory)->Name("memcpy")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tinker
