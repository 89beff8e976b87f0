// A training loop, and how to test one without a server: the scripted server below answers in
// virtual time. Against a real one only `options` differ.
#include <array>
#include <bit>
#include <iostream>
#include <string>
#include <vector>

#include <tinker/testing/fake_transport.h>
#include <tinker/testing/virtual_runtime.h>
#include <tinker/tinker.h>

namespace {

using tinker::testing::FakeReply;
using tinker::testing::FakeTransport;

/// One field of a protobuf message: results of training and sampling travel in that form.
std::string field(char number, const std::string& content) {
  return static_cast<char>(number << 3 | 2) + std::string(1, static_cast<char>(content.size())) +
         content;
}
std::string bytes_of(auto value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
  return {bytes.begin(), bytes.end()};
}

/// A model whose loss halves with each step and that always says token 7.
std::shared_ptr<FakeTransport> scripted_server(const tinker::Runtime& runtime) {
  auto server = std::make_shared<FakeTransport>(runtime);
  server->reply("/client/config", {{.body = "{}"}});
  server->reply("/client/dynamic_config", {{.body = "{}"}});
  server->reply("/telemetry", {{.body = R"({"status":"accepted"})"}});
  server->reply("/session_heartbeat", {{.body = "{}"}});
  server->reply("/finish", {{.body = "{}"}});
  server->reply("/create_session", {{.body = R"({"session_id":"s"})"}});
  for (const char* path : {"/create_model",
                           "/forward_backward",
                           "/optim_step",
                           "/asample",
                           "/save_weights_for_sampler"}) {
    server->reply(path, {{.body = R"({"request_id":"r"})"}});
  }
  auto loss = std::make_shared<double>(8.0);
  server->handle("/retrieve_future", [loss](const tinker::http::Request& request) -> FakeReply {
    const auto type = request.headers.find("X-Tinker-Request-Type");
    if (type == "CreateModel") return {.body = R"({"model_id":"s:train:0"})"};
    if (type == "OptimStep") return {.body = "{}"};
    if (type == "SaveWeightsForSampler") return {.body = R"({"sampling_session_id":"s:sample:0"})"};
    const tinker::http::Headers headers = {
        {.name = "Content-Type", .value = "application/x-protobuf"}};
    if (type == "Sample") {
      return {.body = field(1, field(2, bytes_of(std::int32_t{7}))), .headers = headers};
    }
    const std::string metric = field(1, "loss:sum") + '\x11' + bytes_of(*loss);
    *loss /= 2;
    return {.body = field(3, metric), .headers = headers};
  });
  return server;
}

std::vector<tinker::Datum> make_batch() {
  return {{.model_input = tinker::ModelInput::from_tokens({464, 3139, 286}),
           .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{3139, 286, 4881}},
                              {"weights", std::vector<float>{0, 1, 1}}}}};
}

}  // namespace

int main() {
  const tinker::testing::VirtualRuntime time;
  const tinker::ServiceOptions options = {.base_url = "http://localhost:8000",
                                          .api_key = tinker::Secret("tml-example"),
                                          .transport = scripted_server(time.runtime()),
                                          .runtime = time.runtime()};
  const auto batch = make_batch();
  const auto prompt = tinker::ModelInput::from_tokens({464, 3139});
  //! [loop]
  auto service = tinker::ServiceClient::connect(options).value();
  auto trainer = service.create_lora_training_client("Qwen/Qwen3-8B", {.rank = 16}).get().value();
  for (int step = 0; step < 3; ++step) {
    auto [gradients, update] =
        trainer.train_step(batch, tinker::LossFn::cross_entropy, {.learning_rate = 1e-4});
    std::cout << "loss " << gradients.get().value().loss().value() << '\n';
    update.get().value();
  }
  auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  auto answer = sampler.sample(prompt, {.max_tokens = 64, .temperature = 0.7}).get().value();
  std::cout << "token " << answer.sequences[0].tokens[0] << '\n';
  service.close(tinker::SessionFinishReason::success).get().value();
  //! [loop]
}
