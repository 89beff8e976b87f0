// A durable server that is started again on its data folder: the clients of its first life go on.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/strings.h"
#include "support/durable_fixture.h"
#include "support/raw_http.h"
#include "support/temporary_folder.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"
#include "wire/json.h"

namespace tinker::durable_server_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class DurableServer : public testing::DurableTest {
 protected:
  static std::vector<Datum> batch() {
    return {Datum::next_token({5, 9, 12, 200, 31, 7, 77, 140, 3})};
  }
  /// The losses of so many steps.
  static std::vector<double> train(const TrainingClient& trainer, int steps) {
    std::vector<double> out;
    for (int i = 0; i < steps; ++i) {
      auto [gradients, update] =
          trainer.train_step(batch(), LossFn::cross_entropy, {.learning_rate = 1e-2});
      out.push_back(gradients.get().value().loss().value());
      update.get().value();
    }
    return out;
  }
  static loss::Formula log_likelihood(double weight) {
    return loss::Formula::define("log_likelihood",
                                 {{.name = "logprobs", .rank = 1}},
                                 [weight](const loss::Inputs& in) {
                                   return loss::Output(-weight * sum(in["logprobs"]));
                                 })
        .value();
  }
  /// Those of a run that nothing disturbs.
  [[nodiscard]] std::vector<double> undisturbed(int steps) const {
    return train(new_run(connect()), steps);
  }
  /// Names in the folder of the only run of the only session.
  [[nodiscard]] std::vector<std::string> journal() const {
    std::vector<std::string> out;
    const auto root = std::filesystem::path(folder_.path("data")) / "journal";
    if (!std::filesystem::exists(root)) return out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const auto name = entry.path().filename().string();
      if (name == "log" || name.starts_with("snapshot-")) out.push_back(name);
    }
    return out;
  }
  /// The folder of the state that a log begins with; empty if it begins with none.
  static std::string state_named_by(const std::filesystem::path& log) {
    std::ifstream file(log, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto from = text.find("snapshot-");
    if (from == std::string::npos) return {};
    return text.substr(from, text.find_first_not_of("0123456789", from + 9) - from);
  }
};

TEST_F(DurableServer, GoesOnWithARunToTheBit) {
  const auto expected = undisturbed(6);
  const auto service = connect();
  const auto trainer = new_run(service);
  auto losses = train(trainer, 3);

  start_again();
  for (const double loss : train(trainer, 3)) losses.push_back(loss);

  EXPECT_EQ(losses, expected);
}

TEST_F(DurableServer, GoesOnFromAStateThatItWrote) {
  options_.snapshot_steps = 2;
  start_again();
  const auto expected = undisturbed(9);
  const auto service = connect();
  const auto trainer = new_run(service);
  auto losses = train(trainer, 3);
  start_again();
  for (const double loss : train(trainer, 3)) losses.push_back(loss);
  start_again();

  for (const double loss : train(trainer, 3)) losses.push_back(loss);

  EXPECT_EQ(losses, expected);
}

TEST_F(DurableServer, DoesGradientsAgainThatNoStepHasUsed) {
  const auto expected = undisturbed(2);
  const auto service = connect();
  const auto trainer = new_run(service);
  auto gradients = trainer.forward_backward(batch(), LossFn::cross_entropy).get();
  ASSERT_THAT(gradients, IsOk());

  start_again();
  ASSERT_THAT(trainer.optim_step({.learning_rate = 1e-2}).get(), IsOk());

  EXPECT_EQ(train(trainer, 1).at(0), expected.at(1));
}

TEST_F(DurableServer, KeepsTheNumberOfARequestThatMadeNoSense) {  // PROTOCOL 10.17
  const auto trainer = new_run(connect());
  const auto ask = [&](const std::string& rest) {
    return post("optim_step",
                R"({"model_id":")" + trainer.model_id() + R"(","seq_id":1)" + rest + "}");
  };
  const auto accepted = ask("");
  ASSERT_EQ(accepted.status, 200) << accepted.body;

  start_again();

  EXPECT_EQ(ask("").body, accepted.body);
  EXPECT_THAT(ask(R"(,"adam_params":{})").body, HasSubstr("seq_id 1 "));
}

TEST_F(DurableServer, RefusesNumbersOfSamplesThatItCannotJournal) {
  const auto sampler = connect().create_sampling_client({.base_model = "tiny"}).get().value();
  const std::string& id = sampler.sampling_session_id();
  const auto ask = [&](const std::string& number) {
    return post("asample",
                R"({"sampling_session_id":")" + id + R"(","seq_id":)" + number +
                    R"(,"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)" +
                    R"("sampling_params":{"max_tokens":1}})");
  };
  const std::string highest = "9223372036854774783";

  for (const std::string number :
       {"-1", "-9223372036854775808", "9223372036854774784", "9223372036854775807"}) {
    const auto refused = ask(number);
    EXPECT_EQ(refused.status, 400) << number;
    EXPECT_THAT(refused.body, HasSubstr("seq_id: expected 0 to " + highest + ", found " + number));
  }
  EXPECT_EQ(ask(highest).status, 200);
  start_again();
  EXPECT_EQ(post("retrieve_future", R"({"request_id":")" + id + ":" + highest + R"("})").status,
            410);
}

TEST_F(DurableServer, TellsBatchedPollersOfEverySamplerWhatWasLost) {
  const auto service = connect();
  std::vector<std::string> ids;
  const auto use = [&] {
    const auto sampler = service.create_sampling_client({.base_model = "tiny"}).get().value();
    const auto& id = ids.emplace_back(sampler.sampling_session_id());
    const auto accepted =
        post("asample",
             R"({"sampling_session_id":")" + id +
                 R"(","seq_id":0,"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)" +
                 R"("sampling_params":{"max_tokens":1}})");
    ASSERT_EQ(accepted.status, 200) << accepted.body;
  };
  for (int i = 0; i < 40; ++i) use();

  start_again();

  for (const auto& id : {ids.front(), ids.back()}) {
    const auto polled = post("retrieve_futures",
                             R"({"target":{"type":"sampling_session","sampling_session_id":")" +
                                 id + R"(","cloned_sampler_id":0},"prev_cursor":0})");
    EXPECT_THAT(polled.body, HasSubstr("\"" + id + ":0\"")) << polled.status;
  }
}

TEST_F(DurableServer, DrawsASampleWithoutASeedAgainAsItWas) {
  const auto sampler = connect().create_sampling_client({.base_model = "tiny"}).get().value();
  const auto draw = [&](int number) {
    const auto accepted =
        post("asample",
             R"({"sampling_session_id":")" + sampler.sampling_session_id() +
                 base::concat(R"(","seq_id":)", number) +
                 R"(,"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)" +
                 R"("num_samples":2,"sampling_params":{"max_tokens":8}})");
    const auto id = wire::decode_json<UntypedApiFuture>(accepted.body).value().request_id;
    return outcome(id);
  };
  const auto first = draw(0);
  const auto second = draw(1);
  ASSERT_THAT(first, HasSubstr("tokens"));
  ASSERT_NE(first, second);

  start_again();

  EXPECT_EQ(draw(1), second);
  EXPECT_EQ(draw(0), first);
}

TEST_F(DurableServer, BeginsARunWithoutASeedAgainAsItWas) {
  const auto trainer = connect().create_lora_training_client("tiny", {.rank = 4}).get().value();
  const auto loss = [&] {
    return trainer.forward(batch(), LossFn::cross_entropy).get().value().loss().value();
  };
  train(trainer, 2);
  const double before = loss();

  start_again();

  EXPECT_EQ(loss(), before);
}

TEST_F(DurableServer, RefusesAgainAForwardThatAskedForGradients) {  // PROTOCOL 10.17
  const auto trainer = new_run(connect());
  const ForwardBackwardRequest request = {
      .model_id = trainer.model_id(), .seq_id = 1, .data = batch()};
  const auto accepted = post("forward", wire::encode_json(request).value());
  ASSERT_EQ(accepted.status, 200) << accepted.body;
  const auto id = wire::decode_json<UntypedApiFuture>(accepted.body).value().request_id;
  ASSERT_THAT(outcome(id), HasSubstr("expected a request for a forward pass"));

  start_again();

  EXPECT_THAT(outcome(id), HasSubstr("expected a request for a forward pass"));
}

TEST_F(DurableServer, KeepsSamplingSessionsOfSavesWithoutAName) {
  const auto service = connect();
  const auto trainer = new_run(service);
  train(trainer, 3);
  const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  const SamplingParams params = {.max_tokens = 6, .seed = 7, .stop = std::vector<std::int32_t>()};
  const auto prompt = ModelInput::from_tokens({5, 9});
  const auto before = sampler.sample(prompt, params).get().value().sequences.at(0).tokens;

  start_again();

  EXPECT_EQ(sampler.sample(prompt, params).get().value().sequences.at(0).tokens, before);
}

TEST_F(DurableServer, KeepsAsManyOfThemAsItHasInMemory) {
  constexpr int kKept = 12;
  options_.limits.ephemeral_saves = kKept;
  options_.snapshot_steps = 1;
  start_again();
  const auto service = connect();
  const auto trainer = new_run(service);
  std::vector<SamplingClient> samplers;
  std::vector<std::string> ids;
  for (int i = 0; i < kKept; ++i) {
    samplers.push_back(trainer.save_weights_and_get_sampling_client().get().value());
    ids.push_back(samplers.back().sampling_session_id());
  }
  while (state_named_by(log()).empty()) train(trainer, 1);  // it is written in its own time
  const auto sample = [](const SamplingClient& sampler) {
    return sampler.sample(ModelInput::from_tokens({1}), {.max_tokens = 1}).get();
  };

  start_again();

  for (const auto& sampler : samplers) EXPECT_THAT(sample(sampler), IsOk());
  const auto rest = service.create_rest_client();
  const std::string session = ids.at(0).substr(0, ids.at(0).find(':'));
  EXPECT_THAT(rest.get_session(session).get().value().sampler_ids,
              ::testing::UnorderedElementsAreArray(ids));
  ASSERT_THAT(trainer.save_weights_and_get_sampling_client().get(), IsOk());
  EXPECT_THAT(sample(samplers.at(0)), IsError(ErrorCode::request_failed, HasSubstr("newer ones")));
  EXPECT_THAT(sample(samplers.at(1)), IsOk());
}

TEST_F(DurableServer, KeepsTheLatestOfThemWhateverTheirNumbers) {
  options_.limits.ephemeral_saves = 2;
  options_.snapshot_steps = 1;
  start_again();
  const auto trainer = new_run(connect());
  const std::string& run = trainer.model_id();
  const std::string session = run.substr(0, run.find(':'));
  int seq_id = 0;
  int number = 10'000;
  const auto ask = [&](const char* what, const std::string& rest) {
    const auto accepted =
        post(what, base::concat(R"({"model_id":")", run, R"(","seq_id":)", ++seq_id, rest, "}"));
    ASSERT_EQ(accepted.status, 200) << accepted.body;
  };
  const auto save = [&] {
    ask("save_weights_for_sampler", base::concat(R"(,"sampling_session_seq_id":)", --number));
  };
  const auto sample = [&](int of) {
    const auto accepted =
        post("asample",
             base::concat(R"({"sampling_session_id":")",
                          session,
                          ":sample:",
                          of,
                          R"(","prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"}]},)"
                          R"("sampling_params":{"max_tokens":1}})"));
    return outcome(wire::decode_json<UntypedApiFuture>(accepted.body).value().request_id);
  };
  const auto file = log();
  ask("optim_step", R"(,"adam_params":{})");
  for (int i = 0; i < 4; ++i) save();
  ASSERT_THAT(outcome(base::concat(run, ":", seq_id)), HasSubstr("sampling_session_id"));
  while (state_named_by(file).empty()) (void)sample(number);  // it is written in its own time

  start_again();

  EXPECT_THAT(sample(number + 1), HasSubstr("tokens"));
  EXPECT_THAT(sample(number), HasSubstr("tokens"));
  save();
  ASSERT_THAT(outcome(base::concat(run, ":", seq_id)), HasSubstr("sampling_session_id"));
  EXPECT_THAT(sample(number + 2), HasSubstr("newer ones took their place"));
  EXPECT_THAT(sample(number + 1), HasSubstr("tokens"));
}

TEST_F(DurableServer, MakesASamplingSessionWhileTheModelOfARunIsLoaded) {
  const auto tokenizer = folder_.path("tokenizer.gguf");
  ASSERT_EQ(::mkfifo(tokenizer.c_str(), 0600), 0);  // whoever reads it waits for a writer
  options_.models.push_back(
      {.name = "slow", .source = "random:1x32,vocab=300", .tokenizer = tokenizer});
  start_again();
  const auto id_in = [](const testing::RawResponse& answer) {
    return wire::decode_json<UntypedApiFuture>(answer.body).value().request_id;
  };
  const auto session =
      wire::decode_json<CreateSessionResponse>(
          post("create_session", R"({"tags":[],"sdk_version":"0.36.0","type":"create_session"})")
              .body)
          .value()
          .session_id;
  const auto run =
      id_in(post("create_model",
                 R"({"session_id":")" + session +
                     R"(","model_seq_id":1,"base_model":"slow","lora_config":{"rank":2}})"));

  const auto sampler = post(
      "create_sampling_session",
      R"({"session_id":")" + session + R"(","sampling_session_seq_id":2,"base_model":"tiny"})");

  EXPECT_EQ(sampler.status, 200) << sampler.body;
  std::ofstream(tokenizer).close();
  EXPECT_THAT(outcome(run), HasSubstr("tokenizer.gguf"));
}

TEST_F(DurableServer, KeepsNothingOfARunThatWasRefused) {
  const auto session = wire::decode_json<CreateSessionResponse>(
                           post("create_session", R"({"tags":[],"sdk_version":"0.36.0"})").body)
                           .value()
                           .session_id;
  const std::string request = R"({"session_id":")" + session +
                              R"(","model_seq_id":1,"base_model":"tiny","lora_config":{"rank":0}})";

  const auto accepted = post("create_model", request);

  const auto future = wire::decode_json<UntypedApiFuture>(accepted.body).value();
  EXPECT_THAT(outcome(future.request_id), HasSubstr("rank: expected 1 to"));
  EXPECT_THAT(post("get_info", R"({"model_id":")" + *future.model_id + "\"}").status, 404);
  EXPECT_THAT(journal(), IsEmpty());
  EXPECT_EQ(post("create_model", request).body, accepted.body);  // a repeat
}

TEST_F(DurableServer, KeepsLossesOfTheSession) {
  const auto service = connect();
  const auto trainer = new_run(service);
  const auto loss = service.create_custom_loss(log_likelihood(1.0)).get().value();
  ASSERT_TRUE(loss.loss_id().has_value());
  ASSERT_THAT(trainer.forward_backward_custom(batch(), loss).get(), IsOk());

  start_again();

  EXPECT_THAT(trainer.forward_backward_custom(batch(), loss).get(), IsOk());
}

TEST_F(DurableServer, KeepsMoreLossesThanItAcceptsNow) {
  options_.limits.losses = 2;
  start_again();
  const auto service = connect();
  const auto trainer = new_run(service);
  const auto first = service.create_custom_loss(log_likelihood(1.0)).get().value();
  const auto second = service.create_custom_loss(log_likelihood(2.0)).get().value();
  ASSERT_THAT(service.create_custom_loss(log_likelihood(3.0)).get(),
              IsError(ErrorCode::bad_request, HasSubstr("2 custom losses")));
  options_.limits.losses = 1;

  start_again();

  EXPECT_THAT(trainer.forward_backward_custom(batch(), first).get(), IsOk());
  EXPECT_THAT(trainer.forward_backward_custom(batch(), second).get(), IsOk());
}

TEST_F(DurableServer, DoesNotNeedTheCheckpointThatARunBeganWith) {
  const auto service = connect();
  const auto first = new_run(service);
  train(first, 2);
  const auto path = first.save_state("two").get().value().path;
  const auto trainer = service.create_training_client_from_state_with_optimizer(path).get().value();
  const auto losses = train(trainer, 1);
  const auto reference =
      service.create_training_client_from_state_with_optimizer(path).get().value();
  const auto expected = train(reference, 2);
  ASSERT_THAT(service.create_rest_client().delete_checkpoint_from_tinker_path(path).get(), IsOk());

  start_again();

  EXPECT_EQ(losses.at(0), expected.at(0));
  EXPECT_EQ(train(trainer, 1).at(0), expected.at(1));
}

TEST_F(DurableServer, DoesNotNeedTheCheckpointThatARunLoaded) {
  const auto expected = undisturbed(3);
  const auto service = connect();
  const auto trainer = new_run(service);
  train(trainer, 1);
  const auto path = trainer.save_state("one").get().value().path;
  train(trainer, 2);
  ASSERT_THAT(trainer.load_state_with_optimizer(path).get(), IsOk());
  const auto first = train(trainer, 1);
  ASSERT_THAT(service.create_rest_client().delete_checkpoint_from_tinker_path(path).get(), IsOk());

  start_again();

  EXPECT_EQ(first.at(0), expected.at(1));
  EXPECT_EQ(train(trainer, 1).at(0), expected.at(2));
}

TEST_F(DurableServer, LoadsWhatACheckpointWasBeforeItWasReplaced) {
  const auto expected = undisturbed(3);
  const auto trainer = new_run(connect());
  train(trainer, 1);
  const auto path = trainer.save_state("one").get().value().path;
  train(trainer, 2);
  ASSERT_THAT(trainer.load_state_with_optimizer(path).get(), IsOk());
  EXPECT_EQ(train(trainer, 1).at(0), expected.at(1));
  ASSERT_THAT(trainer.save_state("one", {.overwrite = true}).get(), IsOk());

  start_again();

  EXPECT_EQ(train(trainer, 1).at(0), expected.at(2));
}

TEST_F(DurableServer, DoesNotLoadWhatWasNotThereAtFirst) {
  const auto expected = undisturbed(3);
  const auto trainer = new_run(connect());
  train(trainer, 1);
  const auto path = trainer.save_state("one").get().value().path + "-more";
  train(trainer, 1);
  ASSERT_THAT(trainer.load_state_with_optimizer(path).get(),
              IsError(ErrorCode::request_failed, HasSubstr("one-more")));
  ASSERT_THAT(trainer.save_state("one-more").get(), IsOk());
  ASSERT_THAT(trainer.load_state_with_optimizer(path).get(), IsOk());

  start_again();

  EXPECT_EQ(train(trainer, 1).at(0), expected.at(2));
}

TEST_F(DurableServer, KeepsTheFilesOfALoadUntilItsRunHasAState) {
  options_.snapshot_steps = 1;
  start_again();
  const auto trainer = new_run(connect());
  train(trainer, 1);
  const auto path = trainer.save_state("one").get().value().path;
  const auto loaded = [&] {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(log().parent_path())) {
      if (const auto name = entry.path().filename().string(); name.starts_with("loaded-"))
        out.insert(name);
    }
    return out;
  };
  const auto load = [&](std::int64_t seq_id) {
    return post("load_weights",
                base::concat(R"({"model_id":")",
                             trainer.model_id(),
                             R"(","path":")",
                             path,
                             R"(","optimizer":true,"seq_id":)",
                             seq_id,
                             "}"));
  };

  const auto accepted = load(4);
  ASSERT_THAT(accepted.body, HasSubstr(":4"));
  EXPECT_EQ(load(4).body, accepted.body);
  for (int i = 5; !loaded().empty() && i < 500; ++i) {  // states are written in their own time
    const auto stepped = post(
        "optim_step",
        base::concat(
            R"({"model_id":")", trainer.model_id(), R"(","adam_params":{},"seq_id":)", i, "}"));
    ASSERT_EQ(stepped.status, 200) << stepped.body;
    ASSERT_THAT(outcome(base::concat(trainer.model_id(), ":", i)), Not(HasSubstr("error")));
  }
  EXPECT_THAT(loaded(), IsEmpty());  // those of the repeat, too
  EXPECT_THAT(state_named_by(log()), HasSubstr("snapshot-"));
}

TEST_F(DurableServer, DoesNotMakeACheckpointTwice) {
  const auto service = connect();
  const auto trainer = new_run(service);
  const auto path = trainer.save_state("one").get().value().path;
  const auto rest = service.create_rest_client();
  ASSERT_THAT(rest.delete_checkpoint_from_tinker_path(path).get(), IsOk());

  start_again();
  train(trainer, 1);

  EXPECT_THAT(rest.get_weights_info_by_tinker_path(path).get(),
              IsError(ErrorCode::not_found, HasSubstr("one")));
}

TEST_F(DurableServer, KeepsTheLastStateOnly) {
  options_.snapshot_steps = 1;
  start_again();
  const auto service = connect();
  const auto trainer = new_run(service);
  const auto file = log();
  std::set<std::string> states;
  while (states.size() < 2) {  // they are written beside the steps, in their own time
    train(trainer, 1);
    states.insert(state_named_by(file));
    states.erase("");
  }

  start_again();

  EXPECT_THAT(journal(), UnorderedElementsAre("log", state_named_by(file)));
}

TEST_F(DurableServer, FailsTheRunWhoseLogIsDamaged) {
  const auto service = connect();
  const auto trainer = new_run(service);
  train(trainer, 2);
  ASSERT_THAT(server_->stop(), IsOk());
  std::fstream(log(), std::ios::in | std::ios::out | std::ios::binary).seekp(9).put('\x55');

  start();

  EXPECT_THAT(trainer.forward(batch(), LossFn::cross_entropy).get(),
              IsError(ErrorCode::request_failed, HasSubstr("damaged at byte 8")));
  EXPECT_THAT(train(new_run(service), 1), ::testing::SizeIs(1));
}

TEST_F(DurableServer, KeepsADamagedLogWhenItsRunIsMadeAgain) {
  const auto trainer = new_run(connect());
  train(trainer, 1);
  ASSERT_THAT(server_->stop(), IsOk());
  const auto file = log();
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(9).put('\x55');
  const auto bytes = std::filesystem::file_size(file);
  start();

  const std::string& id = trainer.model_id();
  const auto made =
      post("create_model",
           R"({"session_id":")" + id.substr(0, id.find(':')) + R"(","model_seq_id":)" +
               id.substr(id.rfind(':') + 1) + R"(,"base_model":"tiny","lora_config":{"rank":4}})");

  ASSERT_EQ(made.status, 200) << made.body;
  EXPECT_THAT(outcome(wire::decode_json<UntypedApiFuture>(made.body).value().request_id),
              HasSubstr("damaged at byte 8"));
  EXPECT_EQ(std::filesystem::file_size(file), bytes);
}

TEST_F(DurableServer, FailsTheRunsOfASessionWhoseLogIsDamaged) {
  const auto service = connect();
  const auto trainer = new_run(service);
  ASSERT_THAT(service.create_custom_loss(log_likelihood(1.0)).get(), IsOk());
  ASSERT_THAT(server_->stop(), IsOk());
  const auto file = log().parent_path().parent_path() / "session";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(9).put('\x55');

  start();

  EXPECT_THAT(trainer.forward(batch(), LossFn::cross_entropy).get(),
              IsError(ErrorCode::request_failed, HasSubstr("session: damaged at byte 8")));
}

TEST_F(DurableServer, AnswersRepeatsOfAnUnload) {
  const auto trainer = new_run(connect());
  const auto unload = [&] {
    const auto answer = post("unload_model", R"({"model_id":")" + trainer.model_id() + "\"}");
    const auto accepted = wire::decode_json<UntypedApiFuture>(answer.body);
    return accepted.ok() ? accepted->request_id : answer.body;
  };
  std::vector<std::future<std::string>> at_once;
  for (int i = 0; i < 8; ++i) at_once.push_back(std::async(std::launch::async, unload));
  std::set<std::string> ids;
  for (auto& each : at_once) ids.insert(each.get());
  ASSERT_THAT(ids, ::testing::SizeIs(1));
  EXPECT_THAT(outcome(*ids.begin()), HasSubstr("model_id"));

  start_again();

  EXPECT_THAT(outcome(unload()), HasSubstr("model_id"));
  EXPECT_THAT(post("unload_model", R"({"model_id":"other:train:1"})").status, 404);
}

TEST_F(DurableServer, AnswersHeldPollsWhenItStops) {
  const auto trainer = new_run(connect());
  const ForwardBackwardRequest early = {
      .model_id = trainer.model_id(), .seq_id = 2, .data = batch()};  // waits for the first
  ASSERT_EQ(post("forward_backward", wire::encode_json(early).value()).status, 200);
  auto polled = std::async(std::launch::async, [&] {
    return post("retrieve_future", R"({"request_id":")" + trainer.model_id() + R"(:2"})");
  });
  ASSERT_EQ(polled.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);

  const auto began = std::chrono::steady_clock::now();
  ASSERT_THAT(server_->stop(std::chrono::minutes(1)), IsOk());

  EXPECT_EQ(polled.get().status, 408);  // it may ask the next life
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

TEST_F(DurableServer, RefusesRequestsThatAreTooLongForAJournal) {
  LocalServerOptions options = options_;
  options.data_dir = folder_.path("other");
  options.limits.training_bytes = std::size_t{1} << 32U;

  EXPECT_THAT(
      LocalServer::start(options),
      IsError(ErrorCode::invalid_argument, HasSubstr("training_bytes: expected at most 4095MiB")));
  options.durable = false;
  EXPECT_THAT(LocalServer::start(options), IsOk());
}

TEST_F(DurableServer, RemovesTheJournalWithTheSession) {
  const auto service = connect();
  train(new_run(service), 1);
  ASSERT_THAT(journal(), ElementsAre("log"));

  ASSERT_THAT(service.close(SessionFinishReason::success).get(), IsOk());
  start_again();

  EXPECT_THAT(journal(), IsEmpty());
}

TEST(LocalServer, KeepsNoJournalUnlessItIsDurable) {
  const testing::TemporaryFolder folder;
  const auto server =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
                          .data_dir = folder.path(),
                          .threads = 1})
          .value();
  const auto service =
      ServiceClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-local-test")})
          .value();

  ASSERT_THAT(service.create_lora_training_client("tiny", {.rank = 4}).get(), IsOk());

  EXPECT_FALSE(std::filesystem::exists(folder.path("journal")));
}

}  // namespace
}  // namespace tinker::durable_server_test
