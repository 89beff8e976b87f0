#include "tinker/service_client.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::service_client_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

class ServiceClientTest : public ::testing::Test {
 protected:
  ClientFixture f;
  ServiceClient service = f.connect();
};

TEST_F(ServiceClientTest, ConnectingSendsNothing) {  // R1.1
  f.time.advance(60s);

  EXPECT_THAT(f.server->sent(), IsEmpty());
}

TEST_F(ServiceClientTest, RefusesAnAddressThatIsNone) {
  EXPECT_THAT(ServiceClient::connect({.base_url = "ftp://server"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("ftp://server")));
}

TEST_F(ServiceClientTest, RefusesALogLevelThatIsNone) {
  f.environment["TINKER_LOG"] = "verbose";

  const auto refused = connect(f.options(), f.variables());

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().to_string(),
            "TINKER_LOG: expected debug, info, warn, error or off as log level, found \"verbose\"");
}

TEST_F(ServiceClientTest, SaysWhereAnAddressGoesWrong) {
  const auto error_at = [this](const char* base_url) {
    auto options = f.options();
    options.base_url = base_url;
    f.server->reply("/client/config", {{.status = 404, .body = "no such page"}});
    return f.connect(options).get_server_capabilities().get().error().to_string();
  };

  EXPECT_THAT(error_at("http://server.test/api/v1"),
              HasSubstr("base_url ends in /api/v1, which is added to it: leave that out"));
  EXPECT_THAT(error_at("http://server.test/other"),
              HasSubstr("is base_url the address of a Tinker server?"));
}

TEST_F(ServiceClientTest, NamesTheSourceOfAKeyThatIsRefused) {
  f.server->reply("/client/config", {{.status = 401, .body = "who are you?"}});
  auto options = f.options();
  const auto as_option = f.connect(options).get_server_capabilities().get();
  options.api_key.reset();
  f.environment["TINKER_API_KEY"] = "tml-other-key";
  const auto as_variable = f.connect(options).get_server_capabilities().get();

  EXPECT_THAT(as_option.error().to_string(),
              HasSubstr("with the key of api_key: error code: 401 - who are you?"));
  EXPECT_THAT(as_variable.error().to_string(),
              HasSubstr("with the key of TINKER_API_KEY: error code: 401"));
}

TEST_F(ServiceClientTest, NeedsATransportInVirtualTime) {
  EXPECT_THAT(ServiceClient::connect({.base_url = "http://a.test", .runtime = f.time.runtime()}),
              IsError(ErrorCode::invalid_argument, HasSubstr("give a transport")));
}

TEST_F(ServiceClientTest, TellsWhatTheServerHas) {
  f.server->reply("/get_server_capabilities",
                  {{.body = R"({"supported_models":[{"model_name":"llama"}]})"}});

  const auto capabilities = service.get_server_capabilities().get();

  ASSERT_THAT(capabilities, IsOk());
  EXPECT_EQ(capabilities->supported_models[0].model_name, "llama");
  EXPECT_THAT(f.server->sent("/create_session"), IsEmpty()) << "needs no session (R1.2)";
}

TEST_F(ServiceClientTest, CreatesAModel) {
  const auto trainer = service
                           .create_lora_training_client("llama",
                                                        {.rank = 8,
                                                         .seed = 3,
                                                         .train_unembed = false,
                                                         .user_metadata = StringMap{{"k", "v"}}})
                           .get();

  ASSERT_THAT(trainer, IsOk());
  EXPECT_THAT(
      f.bodies("/create_model"),
      ElementsAre(
          R"({"session_id":"s-1","model_seq_id":0,"base_model":"llama","user_metadata":{"k":"v"},"lora_config":{"rank":8,"seed":3,"train_unembed":false,"train_mlp":true,"train_attn":true},"optimizer_config":{"type":"adamw"},"type":"create_model"})"));
}

TEST_F(ServiceClientTest, NumbersItsModels) {
  auto first = service.create_lora_training_client("llama");
  auto second = service.create_lora_training_client("llama");

  EXPECT_THAT(second.get(), IsOk());

  EXPECT_THAT(f.bodies("/create_model"),
              ElementsAre(HasSubstr(R"("model_seq_id":0)"), HasSubstr(R"("model_seq_id":1)")));
}

TEST_F(ServiceClientTest, RefusesAModelThatTrainsNothing) {  // R7.14
  EXPECT_THAT(service
                  .create_lora_training_client(
                      "llama", {.train_mlp = false, .train_attn = false, .train_unembed = false})
                  .get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("nothing to train")));
  EXPECT_THAT(f.server->sent(), IsEmpty());
}

constexpr auto kPath = "tinker://r:train:0/weights/a";

TEST_F(ServiceClientTest, GoesOnFromACheckpointInTwoSteps) {  // R11.10
  f.server->reply(
      "/weights_info",
      {{.body =
            R"({"base_model":"llama","is_lora":true,"lora_rank":16,"train_mlp":false,"optimizer_config":{"type":"dimuon","version":1}})"}});

  const auto trainer = service.create_training_client_from_state_with_optimizer(kPath).get();

  ASSERT_THAT(trainer, IsOk());
  EXPECT_THAT(f.bodies("/create_model"),
              ElementsAre(AllOf(HasSubstr(R"("base_model":"llama")"),
                                HasSubstr(R"("rank":16)"),
                                HasSubstr(R"("train_mlp":false)"),
                                HasSubstr(R"("optimizer_config":{"type":"dimuon","version":1})"))));
  EXPECT_THAT(
      f.bodies("/load_weights"),
      ElementsAre(
          R"({"model_id":"s-1:train:0","seq_id":1,"path":"tinker://r:train:0/weights/a","optimizer":true,"type":"load_weights"})"));
  EXPECT_THAT(trainer->optim_step(AdamParams()).get(), IsOk());
  EXPECT_THAT(f.bodies("/optim_step"), ElementsAre(HasSubstr(R"("seq_id":2,)")));
}

TEST_F(ServiceClientTest, StartsTheOptimizerAnewWithoutItsState) {  // R7.15
  f.server->reply("/weights_info",
                  {{.body = R"({"base_model":"llama","is_lora":true,"lora_rank":16})"}});

  EXPECT_THAT(service
                  .create_training_client_from_state(
                      kPath, {.base_model = "other", .optimizer = DimuonOptimizerConfig()})
                  .get(),
              IsOk());

  EXPECT_THAT(f.bodies("/create_model")[0],
              AllOf(HasSubstr(R"("base_model":"other")"), HasSubstr(R"({"type":"dimuon")")));
  EXPECT_THAT(f.bodies("/load_weights")[0], HasSubstr(R"("optimizer":false)"));
}

TEST_F(ServiceClientTest, AsksWithTheOwnersCredentialAboutAForeignCheckpoint) {  // R11.10
  f.server->reply("/weights_info",
                  {{.body = R"({"base_model":"llama","is_lora":true,"lora_rank":16})"}});

  EXPECT_THAT(service
                  .create_training_client_from_state(
                      kPath, {.weights_access_token = Secret("tml-owner-key")})
                  .get(),
              IsOk());

  const auto asked = f.server->sent("/weights_info").at(0).request.headers;
  EXPECT_EQ(asked.find("x-api-key"), "tml-owner-key");
  EXPECT_EQ(asked.find("x-sdk-method"), "get_weights_info_by_tinker_path");  // R5.1.3
  EXPECT_EQ(f.server->sent("/create_model")[0].request.headers.find("x-api-key"), "tml-secret-key");
  EXPECT_THAT(f.bodies("/load_weights")[0], HasSubstr(R"("weights_access_token":"tml-owner-key")"));
  EXPECT_THAT(f.log.text(), Not(HasSubstr("tml-owner-key")));
}

TEST_F(ServiceClientTest, RefusesACheckpointWithoutARank) {  // R11.11
  f.server->reply("/weights_info", {{.body = R"({"base_model":"llama","is_lora":false})"}});

  EXPECT_THAT(service.create_training_client_from_state(kPath).get(),
              IsError(ErrorCode::invalid_argument, AllOf(HasSubstr(kPath), HasSubstr("LoRA"))));
}

TEST_F(ServiceClientTest, RefusesAPathThatIsNone) {
  EXPECT_THAT(service.create_training_client_from_state("weights/a").get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("weights/a")));
  EXPECT_THAT(f.server->sent(), IsEmpty());
}

TEST(ServiceClientViaLoad, MakesAModelWithOneRequest) {  // R11.9
  ClientFixture f(R"({"create_model_via_load_weights":true})");
  const auto service = f.connect();

  const auto trainer =
      service.create_training_client_from_state(kPath, {.user_metadata = StringMap{{"run", "b"}}})
          .get();

  ASSERT_THAT(trainer, IsOk());
  EXPECT_EQ(trainer->model_id(), "s-1:train:0");
  EXPECT_THAT(
      f.bodies("/load_weights"),
      ElementsAre(
          R"({"session_id":"s-1","model_seq_id":0,"user_metadata":{"run":"b"},"path":"tinker://r:train:0/weights/a","optimizer":false,"type":"load_weights"})"));
  EXPECT_THAT(f.server->sent("/create_model"), IsEmpty());
  EXPECT_THAT(trainer->optim_step(AdamParams()).get(), IsOk());
  EXPECT_THAT(f.bodies("/optim_step")[0], HasSubstr(R"("seq_id":1,)"));
}

TEST_F(ServiceClientTest, CreatesASampler) {
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get();

  ASSERT_THAT(sampler, IsOk());
  EXPECT_EQ(sampler->sampling_session_id(), "s-1:sample:0");
  EXPECT_THAT(
      f.bodies("/create_sampling_session"),
      ElementsAre(
          R"({"session_id":"s-1","sampling_session_seq_id":0,"base_model":"llama","type":"create_sampling_session"})"));
}

TEST_F(ServiceClientTest, RefusesASamplerOfNothing) {  // R10.1
  EXPECT_THAT(service.create_sampling_client({}).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("model_path or base_model")));
  EXPECT_THAT(service.create_sampling_client({.model_path = "a/b"}).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("a/b")));
  EXPECT_THAT(
      service.create_sampling_client({.base_model = "llama"}, {.retry = {.max_connections = 0}})
          .get(),
      IsError(ErrorCode::invalid_argument, HasSubstr("max_connections")));
}

TEST_F(ServiceClientTest, LinksToItsSession) {  // R1.18
  EXPECT_THAT(service.get_console_url(), ::testing::EndsWith("/sessions"));
  (void)service.create_sampling_client({.base_model = "llama"}).get();
  EXPECT_THAT(service.get_console_url(), ::testing::EndsWith("/sessions/s-1"));
}

TEST_F(ServiceClientTest, CloseTellsTheServer) {  // R1.12
  const auto trainer = service.create_lora_training_client("llama").get().value();

  EXPECT_THAT(service.close(SessionFinishReason::errored, "out of data").get(), IsOk());

  EXPECT_THAT(f.bodies("/finish"),
              ElementsAre(R"({"reason":{"type":"errored"},"detail":"out of data"})"));
  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), IsError(ErrorCode::closed, _));
  EXPECT_THAT(service.get_server_capabilities().get(), IsError(ErrorCode::closed, _));
}

TEST_F(ServiceClientTest, UseClosesWithSuccess) {  // R1.14
  const auto model = service.use([](const ServiceClient& s) {
    return s.create_lora_training_client("llama").get().value().model_id();
  });

  EXPECT_EQ(model, "s-1:train:0");
  EXPECT_THAT(f.bodies("/finish"), ElementsAre(HasSubstr("success")));
}

TEST_F(ServiceClientTest, UseClosesWithTheErrorOfItsFunction) {  // R1.14, D13
  f.server->reply("/finish", {{.status = 404}});
  const auto start = [](const ServiceClient& s) {
    (void)s.create_sampling_client({.base_model = "llama"}).get();
  };
  EXPECT_THROW(service.use([&](const ServiceClient& s) {
    start(s);
    throw std::runtime_error("mine");
  }),
               std::runtime_error);
  EXPECT_THAT(f.bodies("/finish")[0], HasSubstr("errored"));
  EXPECT_THAT(f.log.text(), HasSubstr("could not be closed"));

  auto other = f.connect();
  const auto failed = other.use([&](const ServiceClient& s) -> Result<int> {
    start(s);
    return Error{.code = ErrorCode::io_error, .message = "disk full"};
  });
  EXPECT_THAT(failed, IsError(ErrorCode::io_error, "disk full"));
  EXPECT_THAT(f.bodies("/finish").back(), HasSubstr("errored"));
}

TEST_F(ServiceClientTest, SendsTheCallersTrace) {
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto traced = service.with({.trace = TraceContext{.traceparent = parent}});

  const auto trainer = traced.create_lora_training_client("llama").get().value();
  EXPECT_THAT(
      trainer.with({.trace = TraceContext{.traceparent = parent}}).optim_step(AdamParams()).get(),
      IsOk());

  EXPECT_EQ(f.server->sent("/create_model")[0].request.headers.find("traceparent"), parent);
  EXPECT_EQ(f.server->sent("/optim_step")[0].request.headers.find("traceparent"), parent);
  for (const auto& poll : f.server->sent("/retrieve_future")) {
    EXPECT_EQ(poll.request.headers.find("traceparent"), parent);
  }
}

TEST_F(ServiceClientTest, AClientThatNobodyWaitsForKeepsNothingAlive) {
  f.server->reply("/create_model", {{.never = true}});
  auto pending = service.create_lora_training_client("llama");
  f.time.run_ready();

  {
    const ServiceClient gone = std::move(service);
  }

  EXPECT_THAT(pending.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
}

}  // namespace
}  // namespace tinker::client::service_client_test
