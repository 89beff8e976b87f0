#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tinker/tinker.h"

/// The scripts of official/*.py in C++, by the same names, over the public API alone.
namespace tinker::trace {

struct Script {
  std::string_view name;
  void (*run)();
};

std::vector<Script> session_scripts();
std::vector<Script> training_scripts();
std::vector<Script> loss_scripts();
std::vector<Script> weights_scripts();
std::vector<Script> sampling_scripts();
std::vector<Script> rest_scripts();

// What the scripts share, as in official/common.py.

inline const std::string kBaseModel = "tiny/bytes";

inline ModelInput text(std::vector<std::int32_t> tokens) {
  return ModelInput::from_tokens(std::move(tokens));
}
inline TensorData ints(std::vector<std::int64_t> values) {
  return values;
}
inline TensorData floats(std::vector<float> values) {
  return values;
}

/// Three tokens from `first` on, each of which predicts the next.
Datum datum(std::int32_t first);
std::vector<Datum> data(std::int32_t count);
Datum policy_datum();

ServiceClient connect();
TrainingClient trainer(const ServiceClient& service);
TrainingClient trainer(const ServiceClient& service, LoraTrainingOptions options);
SamplingClient sampler(const ServiceClient& service);
SamplingClient sampler(const ServiceClient& service, SamplingClientOptions options);
/// Two tokens, the most likely ones.
SamplingParams two_tokens();
void finish(const ServiceClient& service);
/// For the few scripts in which something must arrive before the next call.
void pause(std::chrono::milliseconds duration);

template <typename T>
void expect_error(const Result<T>& result) {
  if (result.ok()) throw std::logic_error("this call should fail");
}

}  // namespace tinker::trace
