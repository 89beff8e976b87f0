// trace_scripts NAME: runs one script against the server of the environment; --list names them all.
#include <algorithm>
#include <exception>
#include <iostream>
#include <thread>

#include "scripts.h"

namespace tinker::trace {

Datum datum(std::int32_t first) {
  return {
      .model_input = text({first, first + 1, first + 2}),
      .loss_fn_inputs = {{"target_tokens", ints({first + 1, first + 2, first + 3})},
                         {"weights", floats({1.0F, 0.5F, 2.0F})}},
  };
}

std::vector<Datum> data(std::int32_t count) {
  std::vector<Datum> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(datum(65 + i));
  return out;
}

Datum policy_datum() {
  return {
      .model_input = text({72, 73}),
      .loss_fn_inputs = {{"target_tokens", ints({73, 74})},
                         {"logprobs", floats({-4.5F, -4.25F})},
                         {"advantages", floats({1.0F, -0.5F})}},
  };
}

ServiceClient connect() {
  return ServiceClient::connect().value();
}

TrainingClient trainer(const ServiceClient& service) {
  return service.create_lora_training_client(kBaseModel).get().value();
}
TrainingClient trainer(const ServiceClient& service, LoraTrainingOptions options) {
  return service.create_lora_training_client(kBaseModel, std::move(options)).get().value();
}

SamplingClient sampler(const ServiceClient& service) {
  return sampler(service, {});
}
SamplingClient sampler(const ServiceClient& service, SamplingClientOptions options) {
  return service.create_sampling_client({.base_model = kBaseModel}, std::move(options))
      .get()
      .value();
}

SamplingParams two_tokens() {
  return {.max_tokens = 2, .temperature = 0.0};
}

void finish(const ServiceClient& service) {
  service.close(SessionFinishReason::success).get().value();
}

void pause(std::chrono::milliseconds duration) {
  std::this_thread::sleep_for(duration);
}

namespace {

std::vector<Script> all_scripts() {
  std::vector<Script> out;
  for (const auto& topic : {session_scripts(),
                            training_scripts(),
                            loss_scripts(),
                            weights_scripts(),
                            sampling_scripts(),
                            rest_scripts()}) {
    out.insert(out.end(), topic.begin(), topic.end());
  }
  return out;
}

int run(std::string_view name) {
  const auto scripts = all_scripts();
  if (name == "--list") {
    for (const auto& script : scripts) std::cout << script.name << '\n';
    return 0;
  }
  const auto found = std::ranges::find(scripts, name, &Script::name);
  if (found == scripts.end()) {
    std::cerr << "no script '" << name << "'\n";
    return 2;
  }
  found->run();
  return 0;
}

}  // namespace
}  // namespace tinker::trace

int main(int argc, char** argv) {
  try {
    return tinker::trace::run(argc == 2 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
