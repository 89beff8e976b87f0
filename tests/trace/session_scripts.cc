#include "scripts.h"

namespace tinker::trace {
namespace {

void session_start_and_end() {
  const auto service = ServiceClient::connect({
                                                  .user_metadata = {{"team", "ml"}, {"run", "7"}},
                                                  .project_id = "project-1",
                                                  .display_name = "nightly run",
                                                  .headers = {{.name = "X-Team", .value = "ml"}},
                                              })
                           .value();
  trainer(service);
  finish(service);
}

void session_defaults() {
  const auto service = connect();
  sampler(service);
  service.close(SessionFinishReason::errored, "loss is not a number").get().value();
  service.close(SessionFinishReason::success).get().value();
}

void session_environment() {
  const auto service = connect();
  sampler(service);
  service.close(SessionFinishReason::interrupted).get().value();
}

void session_with_block() {
  connect().use([](const ServiceClient& service) { sampler(service); });
}

void session_with_block_error() {
  try {
    connect().use([](const ServiceClient& service) {
      sampler(service);
      throw std::invalid_argument("stopped");
    });
  } catch (const std::invalid_argument&) {
    return;
  }
  throw std::logic_error("the error of the block should come out");
}

void session_never_begun() {
  finish(connect());
  const auto service = connect();
  service.get_server_capabilities().get().value();
  finish(service);
}

void session_tokens() {
  const auto service = connect();
  trainer(service);
  service.create_rest_client().whoami().get().value();
  finish(service);
}

void sample_nothing() {
  const auto service = connect();
  sampler(service);
  finish(service);
}

void session_refused() {
  const auto service = connect();
  expect_error(service.create_lora_training_client(kBaseModel).get());
}

void session_finish_refused() {
  const auto service = connect();
  sampler(service);
  expect_error(service.close(SessionFinishReason::success).get());
}

void session_without_telemetry() {
  const auto service = connect();
  const auto training = trainer(service);
  expect_error(training.forward_backward(data(1), LossFn::cispo).get());
  finish(service);
}

}  // namespace

std::vector<Script> session_scripts() {
  return {
      {"session_start_and_end", session_start_and_end},
      {"session_defaults", session_defaults},
      {"session_environment", session_environment},
      {"session_with_block", session_with_block},
      {"session_with_block_error", session_with_block_error},
      {"session_never_begun", session_never_begun},
      {"session_tokens", session_tokens},
      {"session_start_up_retries", sample_nothing},
      {"session_refused", session_refused},
      {"session_finish_retries", sample_nothing},
      {"session_finish_refused", session_finish_refused},
      {"session_without_telemetry", session_without_telemetry},
  };
}

}  // namespace tinker::trace
