// What another Tinker server can do with our clients: TINKER_BASE_URL says which. Training,
// sampling, saving and resuming must work; what else it lacks is told, not hidden.

#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <tinker/tinker.h>

namespace tinker::third_party_check {
namespace {

struct Report {
  int failures = 0;

  void require(const std::string& what, bool is_met, const std::string& found) {
    std::cout << (is_met ? "ok     " : "FAILED ") << what << ": " << found << '\n' << std::flush;
    failures += is_met ? 0 : 1;
  }
  template <typename T>
  bool require(const std::string& what, const Result<T>& result) {
    require(what, result.ok(), result.ok() ? "done" : result.error().to_string());
    return result.ok();
  }
  /// Something a server may do without.
  template <typename T>
  void ask(const std::string& what, const Result<T>& result) {
    std::cout << (result.ok() ? "ok     " : "LACKS  ") << what
              << (result.ok() ? "" : ": " + result.error().to_string()) << std::endl;
  }
};

const std::string& text() {
  static const std::string text = "the cat sat on the mat and the cat ate the rat.";
  return text;
}

/// Letters to be predicted from those before them, twice.
std::vector<Datum> make_batch() {
  const Datum datum = {
      .model_input = ModelInput::from_tokens({text().begin(), text().end() - 1}),
      .loss_fn_inputs = {
          {"target_tokens", std::vector<std::int64_t>(text().begin() + 1, text().end())},
          {"weights", std::vector<float>(text().size() - 1, 1.0F)}}};
  return {datum, datum};
}

/// From the logprobs: servers weigh their own figures differently.
double negative_likelihood(const ForwardBackwardOutput& output) {
  double sum = 0.0;
  for (const auto& datum : output.loss_fn_outputs) {
    for (const float logprob : datum.at("logprobs").floats()) sum -= logprob;
  }
  return sum;
}

double train(Report& report, const TrainingClient& trainer, int steps) {
  double first = 0.0;
  double last = 0.0;
  for (int i = 0; i < steps; ++i) {
    auto [gradients, update] =
        trainer.train_step(make_batch(), LossFn::cross_entropy, {.learning_rate = 1e-2});
    const auto output = gradients.get();
    if (!report.require("forward_backward " + std::to_string(i), output)) return last;
    if (!report.require("optim_step " + std::to_string(i), update.get())) return last;
    last = negative_likelihood(*output);
    if (i == 0) first = last;
  }
  report.require(
      "loss falls", last < 0.9 * first, std::to_string(first) + " -> " + std::to_string(last));
  return last;
}

double loss_of(Report& report, const TrainingClient& trainer, const std::string& what) {
  const auto output = trainer.forward(make_batch(), LossFn::cross_entropy).get();
  return report.require(what, output) ? negative_likelihood(*output) : std::nan("");
}

void save_and_resume(Report& report, const ServiceClient& service, const TrainingClient& trainer) {
  const double before = loss_of(report, trainer, "forward");
  const auto saved = trainer.save_state("checkpoint").get();
  if (!report.require("save_state", saved)) return;
  const auto resumed = service.create_training_client_from_state_with_optimizer(saved->path).get();
  if (!report.require("create_training_client_from_state_with_optimizer", resumed)) return;
  const double after = loss_of(report, *resumed, "forward of the resumed model");
  report.require("the resumed model has the same loss",
                 std::abs(before - after) < 1e-3 * std::abs(before),
                 std::to_string(before) + " and " + std::to_string(after));
}

void sample(Report& report, const TrainingClient& trainer) {
  const auto sampler = trainer.save_weights_and_get_sampling_client().get();
  if (!report.require("save_weights_and_get_sampling_client", sampler)) return;
  const auto prompt = ModelInput::from_tokens({'t', 'h', 'e', ' ', 'c'});
  const auto answer = sampler->sample(prompt, {.max_tokens = 4, .temperature = 0}).get();
  if (report.require("sample", answer)) {
    std::string more;
    for (const auto token : answer->sequences.at(0).tokens) more += static_cast<char>(token);
    std::cout << R"(       "the c" goes on: ")" << more << "\"\n";
  }
  const auto scores =
      sampler->compute_logprobs(ModelInput::from_tokens({text().begin(), text().end()})).get();
  report.ask("compute_logprobs", scores);
  if (scores.ok()) {
    double sampled = 0.0;
    for (const auto& score : *scores) sampled -= score.value_or(0.0F);
    const double trained = loss_of(report, trainer, "forward for the sampler's weights") / 2;
    report.require("the sampler has what was trained",
                   std::abs(sampled - trained) < 0.02 * trained,
                   std::to_string(sampled) + " and " + std::to_string(trained));
  }
  report.ask("topk_prompt_logprobs",
             sampler->sample(prompt, {.max_tokens = 1}, {.topk_prompt_logprobs = 2}).get());
}

void ask_for_the_rest(Report& report, const ServiceClient& service, const TrainingClient& trainer) {
  const auto rest = service.create_rest_client().with({.deadline = std::chrono::seconds(5)});
  report.ask("get_info", trainer.get_info().get());
  report.ask("get_training_run", rest.get_training_run(trainer.model_id()).get());
  report.ask("list_checkpoints", rest.list_checkpoints(trainer.model_id()).get());
  report.ask("list_user_checkpoints", rest.list_user_checkpoints().get());
  report.ask("list_sessions", rest.list_sessions().get());
  report.ask("save_weights_external",
             trainer.with({.deadline = std::chrono::seconds(30)}).save_weights_external("e").get());
  report.ask("close", service.close(SessionFinishReason::success).get());
}

int run() {
  Report report;
  const auto service = ServiceClient::connect();
  if (!report.require("connect", service)) return 1;
  const auto capabilities = service->get_server_capabilities().get();
  if (!report.require("get_server_capabilities", capabilities)) return 1;
  const auto model = capabilities->supported_models.at(0).model_name.value_or("");
  const auto trainer = service->create_lora_training_client(model, {.rank = 8}).get();
  if (!report.require("create_lora_training_client", trainer)) return 1;
  train(report, *trainer, 30);
  sample(report, *trainer);
  save_and_resume(report, *service, *trainer);
  ask_for_the_rest(report, *service, *trainer);
  std::cout << report.failures << " failures\n";
  return report.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tinker::third_party_check

int main() {
  return tinker::third_party_check::run();
}
