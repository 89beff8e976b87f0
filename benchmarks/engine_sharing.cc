#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/scheduler.h"
#include "engine_bench.h"

namespace tinker {
namespace {

/// When each token was drawn, told by the engine's own thread.
class TokenTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// The bytes of a token, none of which stops anything.
  std::string note() {
    const std::scoped_lock lock(mutex_);
    times_.push_back(std::chrono::steady_clock::now());
    return "x";
  }
  std::vector<Time> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(times_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Time> times_;
};

/// Tokens of one request after another.
struct Stream {
  std::vector<TokenTimes::Time> times = {};

  /// What came later was drawn with nobody beside it.
  void drop_after(TokenTimes::Time end) {
    std::erase_if(times, [&](TokenTimes::Time time) { return time > end; });
  }
  /// Tokens a second, what lies between requests included.
  [[nodiscard]] double rate() const {
    const std::chrono::duration<double> all = times.back() - times.front();
    return static_cast<double>(times.size() - 1) / all.count();
  }
  /// Between two tokens, in seconds.
  [[nodiscard]] double longest() const {
    std::chrono::duration<double> out(0);
    for (std::size_t i = 1; i < times.size(); ++i) {
      out = std::max<std::chrono::duration<double>>(out, times[i] - times[i - 1]);
    }
    return out.count();
  }
};

/// Draws from one request after another while `goes_on()`.
template <typename F>
Result<Stream> decode_while(const Engine& engine,
                            TokenTimes& times,
                            const engine::ModelConfig& config,
                            F goes_on) {
  Stream out;
  const auto prompt = ModelInput::from_tokens(tokens_of(3000, kPromptTokens + 1, config));
  while (goes_on()) {
    times.take();
    TINKER_TRY(engine.sample(prompt,
                             {.max_tokens = static_cast<std::int64_t>(kNewTokens),
                              .seed = Seed(1),
                              .stop = std::vector<std::string>{"never"}}));
    const auto drawn = times.take();
    out.times.insert(out.times.end(), drawn.begin(), drawn.end());
  }
  return out;
}

}  // namespace

Result<void> bench_sharing(const engine::ModelConfig& config, const EngineBenchOptions& options) {
  TokenTimes times;
  TINKER_TRY(const auto engine,
             Engine::load(options.model,
                          {.precision = options.precision,
                           .threads = options.threads,
                           .cpu = options.cpu,
                           .token_bytes = [&](std::int32_t) { return times.note(); }}));
  TINKER_TRY(const auto trainer, engine.create_trainer({.seed = Seed(1)}));
  const auto data = step_data(config, options);
  // Seconds of a step, on average.
  const auto train = [&](int steps) -> Result<double> {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) {
      TINKER_TRY(trainer.forward_backward(data, LossFn::cross_entropy));
      TINKER_TRY(trainer.optim_step({.learning_rate = 1e-4}));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
  };
  TINKER_TRY(train(1));  // takes the memory
  TINKER_TRY(const double step_alone, train(options.repetitions));
  int requests = 2 + options.repetitions;
  TINKER_TRY(const auto alone, decode_while(engine, times, config, [&] { return requests-- > 0; }));

  std::atomic<bool> is_over = false;
  Result<Stream> beside = Error{};
  std::thread sampling(
      [&] { beside = decode_while(engine, times, config, [&] { return !is_over.load(); }); });
  const auto step_beside = train(options.repetitions);
  const auto end = std::chrono::steady_clock::now();
  is_over = true;
  sampling.join();
  TINKER_TRY(const double seconds, step_beside);
  if (!beside.ok()) return beside.error();
  beside->drop_after(end);
  print("sharing",
        {{"train_alone", 1 / step_alone},
         {"train_beside", 1 / seconds},
         {"decode_alone", alone.rate()},
         {"decode_beside", beside->rate()},
         {"longest_gap_alone", alone.longest()},
         {"longest_gap_beside", beside->longest()},
         {"quantum", std::chrono::duration<double>(engine::SchedulerOptions().quantum).count()}});
  return {};
}

}  // namespace tinker
