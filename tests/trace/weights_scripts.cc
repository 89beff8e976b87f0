#include "scripts.h"

namespace tinker::trace {
namespace {

Secret owner() {
  return Secret("tml-owner-key");
}
StringMap origin() {
  return {{"from", "first"}};
}

void sample(const SamplingClient& sampling) {
  sampling.sample(text({65}), two_tokens()).get().value();
}

void save_and_load() {
  const auto service = connect();
  const auto training = trainer(service);
  const auto path = training.save_state("first").get().value().path;
  training
      .save_state(
          "first",
          {.ttl_seconds = 7200, .overwrite = true, .user_metadata = StringMap{{"step", "1"}}})
      .get()
      .value();
  training.load_state(path).get().value();
  training.load_state_with_optimizer(path).get().value();
  training.load_state(path, {.weights_access_token = owner()}).get().value();
  training.load_state_with_optimizer(path, {.weights_access_token = owner()}).get().value();
  finish(service);
}

void save_for_samplers() {
  const auto service = connect();
  const auto training = trainer(service);
  const auto path = training.save_weights_for_sampler("eval").get().value().path;
  training
      .save_weights_for_sampler("eval-2",
                                {.ttl_seconds = 3600, .user_metadata = StringMap{{"best", "yes"}}})
      .get()
      .value();
  sample(training.create_sampling_client(path).get().value());
  service.create_sampling_client({.model_path = path, .base_model = kBaseModel}).get().value();
  service.create_sampling_client({.model_path = path}).get().value();
  finish(service);
}

void save_and_sample() {
  const auto service = connect();
  const auto training = trainer(service);
  sampler(service);
  sample(training.save_weights_and_get_sampling_client().get().value());
  sample(
      training.save_weights_and_get_sampling_client({.record_stability_info = true}).get().value());
  finish(service);
}

void save_external() {
  const auto service = connect();
  const auto training = trainer(service);
  const auto path = training.save_weights_external("export").get().value().path;
  const std::vector<std::string> recipients = {
      "age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq", "ssh-ed25519 AAAA me"};
  training
      .save_weights_external("sealed",
                             {.ttl_seconds = 86400, .age_encryption_recipients = recipients})
      .get()
      .value();
  service.create_rest_client().get_external_weights_urls(path).get().value();
  finish(service);
}

void save_one() {
  const auto service = connect();
  trainer(service).save_state("first").get().value();
  finish(service);
}

void save_ephemeral_retries() {
  const auto service = connect();
  const auto training = trainer(service);
  sample(training.save_weights_and_get_sampling_client().get().value());
  sample(sampler(service));
  finish(service);
}

void save_failed() {
  const auto service = connect();
  const auto training = trainer(service);
  training.save_state("first").get().value();
  expect_error(training.save_state("first").get());
  expect_error(training.load_state("tinker://session-1:train:0/weights/none").get());
  finish(service);
}

std::string checkpoint(const ServiceClient& service) {
  const auto training = trainer(service, {.rank = 8, .train_mlp = false});
  return training.save_state("first").get().value().path;
}

void from_state() {
  const auto service = connect();
  const auto path = checkpoint(service);
  const auto training = service.create_training_client_from_state(path).get().value();
  training.forward_backward(data(1), LossFn::cross_entropy).get().value();
  service
      .create_training_client_from_state(path,
                                         {.base_model = "tiny/other",
                                          .user_metadata = origin(),
                                          .optimizer = DimuonOptimizerConfig()})
      .get()
      .value();
  finish(service);
}

void from_state_with_optimizer() {
  const auto service = connect();
  const auto path = checkpoint(service);
  const auto training =
      service.create_training_client_from_state_with_optimizer(path).get().value();
  training.optim_step(AdamParams()).get().value();
  service
      .create_training_client_from_state_with_optimizer(
          path, {.base_model = "tiny/other", .user_metadata = origin()})
      .get()
      .value();
  finish(service);
}

void from_state_of_others() {
  const auto service = connect();
  const auto path = checkpoint(service);
  const FromStateOptions options = {.weights_access_token = owner()};
  service.create_training_client_from_state(path, options).get().value();
  service.create_training_client_from_state_with_optimizer(path, options).get().value();
  finish(service);
}

void from_state_by_load() {
  const auto service = connect();
  const auto path = checkpoint(service);
  const auto training = service.create_training_client_from_state(path).get().value();
  training.forward_backward(data(1), LossFn::cross_entropy).get().value();
  service
      .create_training_client_from_state(path,
                                         {.base_model = "tiny/other",
                                          .user_metadata = origin(),
                                          .weights_access_token = owner(),
                                          .optimizer = DimuonOptimizerConfig()})
      .get()
      .value();
  service.create_training_client_from_state_with_optimizer(path).get().value();
  service
      .create_training_client_from_state_with_optimizer(
          path,
          {.base_model = "tiny/other", .user_metadata = origin(), .weights_access_token = owner()})
      .get()
      .value();
  finish(service);
}

void from_state_missing() {
  const auto service = connect();
  trainer(service);
  expect_error(service.create_training_client_from_state("tinker://run/weights/none").get());
  finish(service);
}

}  // namespace

std::vector<Script> weights_scripts() {
  return {
      {"save_and_load", save_and_load},
      {"save_for_samplers", save_for_samplers},
      {"save_and_sample", save_and_sample},
      {"save_external", save_external},
      {"save_conflict", save_one},
      {"save_retries", save_one},
      {"save_lost_answer", save_one},
      {"save_ephemeral_retries", save_ephemeral_retries},
      {"save_failed", save_failed},
      {"from_state", from_state},
      {"from_state_with_optimizer", from_state_with_optimizer},
      {"from_state_of_others", from_state_of_others},
      {"from_state_of_others_by_token", from_state_of_others},
      {"from_state_by_load", from_state_by_load},
      {"from_state_missing", from_state_missing},
  };
}

}  // namespace tinker::trace
