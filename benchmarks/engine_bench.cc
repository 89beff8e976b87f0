// What the engine costs. `./dev bench engine` (engine_area.py) runs this beside PyTorch and
// llama.cpp (engine_peer.py) on the same models and the same tokens:
//
//     engine_bench paths                   the kernels that this machine can run
//     engine_bench make SHAPE FOLDER       a random model: d512 or smollm2
//     engine_bench convert MODEL FOLDER    another model, in bf16
//     engine_bench kernels [--precision P] [--threads N] [--cpu PATH]
//     engine_bench model MODEL --what lora_step,prefill,decode,sharing [...]
//     engine_bench model MODEL --what sft_turns|rl_turns [...]
//
// Prints one JSON object a line. Of what is done several times, the best counts.

#include "engine_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/strings.h"
#include "engine/model_files.h"
#include "engine/product.h"
#include "engine_models.h"
#include "register_peak.h"
#include "tinker/engine.h"

namespace tinker {

void print(std::string_view what, const std::vector<std::pair<std::string_view, double>>& numbers) {
  std::string line = base::concat(R"({"what": ")", what, '"');
  for (const auto& [name, number] : numbers) line += base::concat(R"(, ")", name, R"(": )", number);
  std::printf("%s}\n", line.c_str());
  std::fflush(stdout);
}

std::vector<std::int32_t> tokens_of(std::uint64_t sequence,
                                    std::size_t count,
                                    const engine::ModelConfig& config) {
  std::vector<std::int32_t> out;
  std::uint64_t state = sequence * 7919 + 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = (state * 1'103'515'245 + 12'345) % (std::uint64_t{1} << 31U);
    out.push_back(static_cast<std::int32_t>((state >> 8U) % config.vocab_size));
  }
  return out;
}

std::vector<Datum> step_data(const engine::ModelConfig& config, const EngineBenchOptions& options) {
  std::vector<Datum> out;
  for (std::size_t i = 0; i < options.sequences; ++i) {
    auto tokens = tokens_of(i, options.length + 1, config);
    std::vector<std::int64_t> targets(tokens.begin() + 1, tokens.end());
    tokens.pop_back();
    out.push_back({.model_input = ModelInput::from_tokens(std::move(tokens)),
                   .loss_fn_inputs = {{"target_tokens", std::move(targets)},
                                      {"weights", std::vector<float>(options.length, 1.0F)}}});
  }
  return out;
}

namespace {

using engine::ModelConfig;
using Options = EngineBenchOptions;

constexpr std::int64_t kRank = 16;
constexpr std::size_t kPrefillTokens = 512;
/// Seconds of the best of some calls, or of more until they have taken so long together. The first
/// that fails is the last.
Result<double> best_of(int repetitions,
                       const std::function<Result<void>(int)>& work,
                       double until = 0) {
  double best = 1e9;
  double total = 0;
  for (int i = 0; i < repetitions || total < until; ++i) {
    const auto start = std::chrono::steady_clock::now();
    TINKER_TRY(work(i));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
    total += elapsed.count();
  }
  return best;
}

/// Of this program, largest and now ("VmHWM", "VmRSS").
double megabytes(std::string_view name) {
  std::ostringstream status;
  status << std::ifstream("/proc/self/status").rdbuf();
  const std::string text = status.str();
  return std::stod(text.substr(text.find(base::concat(name, ":")) + name.size() + 1)) * 1024e-6;
}

// ---- training ----

Result<void> bench_step(const Engine& engine, const ModelConfig& config, const Options& options) {
  const auto data = step_data(config, options);
  const auto tokens = static_cast<double>(options.sequences * options.length);
  TINKER_TRY(const auto trainer,
             engine.create_trainer({.rank = kRank, .seed = Seed(1), .train_unembed = false}));
  double first_loss = 0;
  TINKER_TRY(const double seconds, best_of(options.repetitions, [&](int i) -> Result<void> {
               TINKER_TRY(const auto output, trainer.forward_backward(data, LossFn::cross_entropy));
               TINKER_TRY(trainer.optim_step({.learning_rate = 1e-4}));
               TINKER_TRY(const double loss, output.loss());
               if (i == 0) first_loss = loss / tokens;
               return {};
             }));
  print("lora_step",
        {{"tokens", tokens},
         {"seconds", seconds},
         {"flop", tokens * lora_flop_per_token(config, kRank, static_cast<double>(options.length))},
         {"first_loss", first_loss}});
  return {};
}

// ---- sampling ----

/// Prompts, and how many tokens are drawn after each.
struct Draws {
  std::vector<ModelInput> prompts = {};
  std::size_t answer = 0;

  [[nodiscard]] SamplingParams params() const {
    return {.max_tokens = static_cast<std::int64_t>(answer),
            .seed = Seed(1),
            .stop = std::vector<std::int32_t>()};
  }
};

Draws draws_of(std::uint64_t first,
               std::size_t count,
               std::size_t prompt,
               std::size_t answer,
               const ModelConfig& config) {
  Draws out = {.answer = answer};
  for (std::size_t i = 0; i < count; ++i)
    out.prompts.push_back(ModelInput::from_tokens(tokens_of(first + i, prompt, config)));
  return out;
}

/// Fails unless each has as many tokens as asked for, and found so many of its prompt, if that
/// matters.
Result<void> sample(const Engine& engine, const Draws& draws, std::optional<std::size_t> hits) {
  std::vector<Future<SampleResponse>> futures;
  for (const auto& prompt : draws.prompts)
    futures.push_back(engine.sample_async(prompt, draws.params()));
  for (auto& future : futures) {
    TINKER_TRY(const auto answer, future.get());
    const std::size_t drawn = answer.sequences[0].tokens.size();
    const auto found = static_cast<std::size_t>(answer.prompt_cache_hit_tokens);
    if (drawn == draws.answer && found == hits.value_or(found)) continue;
    return Error{.code = ErrorCode::internal,
                 .message = base::concat("drew ",
                                         drawn,
                                         " tokens of ",
                                         draws.answer,
                                         " and found ",
                                         found,
                                         " of a prompt, where it should be ",
                                         hits.value_or(found))};
  }
  return {};
}

Result<void> bench_prefill(const Engine& engine,
                           const ModelConfig& config,
                           const Options& options) {
  TINKER_TRY(const double seconds, best_of(options.repetitions, [&](int i) {
               const auto first = static_cast<std::uint64_t>(1000 + i);  // never seen before
               return sample(engine, draws_of(first, 1, kPrefillTokens, 1, config), 0);
             }));
  const auto tokens = static_cast<double>(kPrefillTokens);
  print("prefill",
        {{"tokens", tokens},
         {"seconds", seconds},
         {"flop", tokens * prefill_flop_per_token(config, tokens)}});
  return {};
}

/// The prompts are in the cache but for their last tokens, so that each of the steps that are timed
/// takes one token of every sequence. Drawing them is part of it.
Result<void> bench_decode(const Engine& engine, const ModelConfig& config, const Options& options) {
  for (const std::size_t batch : options.batches) {
    const auto first = draws_of(2000, batch, kPromptTokens + 1, 1, config);
    const auto requests = draws_of(2000, batch, kPromptTokens + 1, kNewTokens, config);
    TINKER_TRY(sample(engine, first, std::nullopt));
    TINKER_TRY(const double seconds, best_of(options.repetitions, [&](int /*i*/) {
                 return sample(engine, requests, kPromptTokens);
               }));
    print("decode",
          {{"batch", static_cast<double>(batch)},
           {"tokens", static_cast<double>(batch * kNewTokens)},
           {"seconds", seconds}});
  }
  return {};
}

Result<void> bench_model(const Options& options) {
  TINKER_TRY(const auto files, engine::ModelFiles::open(options.model));
  const ModelConfig& config = files.config();
  if (options.asks_for("sharing")) return bench_sharing(config, options);
  if (options.asks_for("sft_turns") || options.asks_for("rl_turns"))
    return bench_turns(config, options);
  TINKER_TRY(const auto engine,
             Engine::load(
                 options.model,
                 {.precision = options.precision, .threads = options.threads, .cpu = options.cpu}));
  const double loaded = megabytes("VmRSS");
  if (options.asks_for("lora_step")) {
    TINKER_TRY(bench_step(engine, config, options));
    print("memory", {{"megabytes", megabytes("VmHWM")}, {"loaded", loaded}});
  }
  if (options.asks_for("prefill")) {
    TINKER_TRY(bench_prefill(engine, config, options));
  }
  if (options.asks_for("decode")) {
    TINKER_TRY(bench_decode(engine, config, options));
  }
  return {};
}

// ---- kernels ----

/// c: (m, n) = a: (m, k) times the transpose of w: (n, k)
struct Shape {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
};
constexpr std::array<Shape, 12> kShapes = {{
    {.m = 2048, .n = 512, .k = 512},    // d512: attention
    {.m = 2048, .n = 1408, .k = 512},   // gate, up
    {.m = 2048, .n = 512, .k = 1408},   // down
    {.m = 2048, .n = 576, .k = 576},    // smollm2: attention
    {.m = 2048, .n = 1536, .k = 576},   // gate, up
    {.m = 2048, .n = 576, .k = 1536},   // down
    {.m = 512, .n = 49'152, .k = 576},  // head
    {.m = 2048, .n = 16, .k = 576},     // LoRA A
    {.m = 2048, .n = 576, .k = 16},     // LoRA B
    {.m = 64, .n = 1536, .k = 576},     // decode
    {.m = 8, .n = 1536, .k = 576},
    {.m = 1, .n = 1536, .k = 576},  // with weights in the cache
}};

// For each shape: others may use the machine, too.
constexpr double kProductSeconds = 0.2;

/// GFLOP/s.
double product_rate(engine::ThreadPool& threads,
                    const engine::Kernels& kernels,
                    const Shape& shape,
                    int repetitions) {
  engine::PackedMatrix w(kernels, shape.n, shape.k);
  std::vector<float> row(w.padded_k());
  for (std::size_t i = 0; i < shape.k; ++i) row[i] = static_cast<float>(i % 7) - 3.0F;
  for (std::size_t i = 0; i < shape.n; ++i) w.set_row(i, std::span(row).first(shape.k));
  const std::size_t stride = w.padded_k() * kernels.element_bytes;
  const engine::AlignedBytes a(shape.m * stride);
  for (std::size_t i = 0; i < shape.m; ++i) {
    kernels.to_elements(row.data(), w.padded_k(), a.data() + i * stride);
  }
  const engine::Floats c(shape.m * shape.n);
  const std::array<engine::Product, 1> products = {
      {{.terms = {{{.a = a.data(), .a_stride = w.padded_k(), .w = &w}}},
        .rows = shape.m,
        .c = c.data(),
        .c_stride = shape.n}}};
  const double flop = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  const int calls = std::max(1, static_cast<int>(5e8 / flop));
  const auto multiply_often = [&](int /*i*/) -> Result<void> {
    for (int call = 0; call < calls; ++call) engine::multiply(threads, kernels, products);
    return {};
  };
  const auto seconds = best_of(repetitions, multiply_often, kProductSeconds);
  return flop * calls / *seconds * 1e-9;
}

Result<void> bench_kernels(const Options& options) {
  TINKER_TRY(const auto path, engine::choose_cpu_path(options.cpu));
  const bool is_f32 = options.precision == EnginePrecision::f32;
  const auto& kernels =
      engine::kernels_of(path, is_f32 ? engine::Precision::f32 : engine::Precision::bf16);
  engine::ThreadPool threads(options.threads);
  double peak = register_peak(kernels, options.threads);
  std::vector<double> rates;
  for (const auto& shape : kShapes) {
    rates.push_back(product_rate(threads, kernels, shape, options.repetitions));
    peak = std::max(peak, register_peak(kernels, options.threads));  // the clock may change
  }
  print("peak", {{"gflops", peak}});
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const auto& shape = kShapes[i];
    print("gemm",
          {{"m", static_cast<double>(shape.m)},
           {"n", static_cast<double>(shape.n)},
           {"k", static_cast<double>(shape.k)},
           {"gflops", rates[i]}});
  }
  return {};
}

void print_paths() {
  for (const auto path : engine::cpu_paths()) {
    std::printf("%s\n", std::string(engine::to_string(path)).c_str());
  }
}

// ---- command line ----

void add_compute_options(CLI::App& command, Options& options) {
  const std::map<std::string, EnginePrecision> precisions = {{"f32", EnginePrecision::f32},
                                                             {"bf16", EnginePrecision::bf16}};
  command.add_option("--precision", options.precision)
      ->transform(CLI::CheckedTransformer(precisions));
  command.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  command.add_option("--cpu", options.cpu);
  command.add_option("--repetitions", options.repetitions)->check(CLI::PositiveNumber);
}

int bench(int count, char** arguments) {
  Options options;
  std::string shape;
  std::filesystem::path folder;
  CLI::App app("What the engine costs.");
  app.require_subcommand(1);
  const auto* paths = app.add_subcommand("paths", "the kernels that this machine can run");
  auto* make = app.add_subcommand("make", "a random model");
  make->add_option("SHAPE", shape)->required();
  make->add_option("FOLDER", folder)->required();
  auto* convert = app.add_subcommand("convert", "another model, in bf16");
  convert->add_option("MODEL", options.model)->required();
  convert->add_option("FOLDER", folder)->required();
  auto* kernels = app.add_subcommand("kernels", "peak and products");
  add_compute_options(*kernels, options);
  auto* model = app.add_subcommand("model", "training and sampling");
  model->add_option("MODEL", options.model)->required();
  model->add_option("--what", options.what)
      ->delimiter(',')
      ->required()
      ->check(
          CLI::IsMember({"lora_step", "prefill", "decode", "sharing", "sft_turns", "rl_turns"}));
  model->add_option("--sequences", options.sequences)->check(CLI::PositiveNumber);
  model->add_option("--length", options.length)->check(CLI::PositiveNumber);
  model->add_option("--batches", options.batches)->delimiter(',')->check(CLI::PositiveNumber);
  add_compute_options(*model, options);
  CLI11_PARSE(app, count, arguments);

  if (paths->parsed()) {
    print_paths();
    return 0;
  }
  const auto done = make->parsed()      ? make_model(shape, folder)
                    : convert->parsed() ? convert_model(options.model, folder)
                    : kernels->parsed() ? bench_kernels(options)
                                        : bench_model(options);
  if (done.ok()) return 0;
  std::fprintf(stderr, "engine_bench: %s\n", done.error().to_string().c_str());
  return 1;
}

}  // namespace
}  // namespace tinker

int main(int count, char** arguments) {
  try {
    return tinker::bench(count, arguments);
  } catch (const std::exception& error) {  // out of memory
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
