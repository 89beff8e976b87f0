#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/store_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::store_sessions_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;

class StoreSessions : public testing::StoreTest {
 protected:
  /// A session of "ada", a second younger than the one before.
  SessionRecord add(SessionRecord session) {
    clock_.advance(1s);
    if (session.owner.empty()) session.owner = "ada";
    session.created_at = now();
    store_->add_session(session).value();
    return session;
  }
  void add_named(const std::string& id, const std::string& name) {
    add({.session_id = id, .display_name = name});
  }
  std::vector<std::string> search(SessionQuery query) {
    query.owner = "ada";
    std::vector<std::string> ids;
    for (auto& session : store_->search_sessions(query).value()) ids.push_back(session.session_id);
    return ids;
  }
  RunRecord add_run(RunRecord run) {
    clock_.advance(1s);
    if (run.owner.empty()) run.owner = "ada";
    run.created_at = now();
    store_->add_run(run).value();
    return run;
  }
};

auto session_id(const auto& matcher) {
  return Field(&SessionRecord::session_id, matcher);
}

auto run_id(const auto& matcher) {
  return Field(&RunRecord::run_id, matcher);
}

TEST_F(StoreSessions, KeepAllThatIsKnown) {
  const SessionRecord session = {.session_id = "s'; DROP TABLE sessions; --",
                                 .owner = "ada",
                                 .tags = {"nightly", "lab \"2\""},
                                 .user_metadata = {{"team", "ñlp"}, {"", ""}},
                                 .sdk_version = "0.36.0",
                                 .project_id = "p",
                                 .display_name = "Night run",
                                 .created_at = now() + 123456us,
                                 .finish_reason = SessionFinishReason::errored,
                                 .finish_detail = "why",
                                 .has_expired = true};
  store_->add_session(session).value();
  reopen();

  EXPECT_THAT(store_->find_session(session.session_id), IsOkAndHolds(session));
}

TEST_F(StoreSessions, KeepWhatIsAbsentAbsent) {
  add({.session_id = "s"});
  const auto found = store_->find_session("s").value().value();

  EXPECT_EQ(found.display_name, std::nullopt);
  EXPECT_EQ(found.finish_reason, std::nullopt);
  EXPECT_EQ(found.finish_detail, std::nullopt);
}

TEST_F(StoreSessions, AreUnknownUntilTheyAreAdded) {
  EXPECT_THAT(store_->find_session("s"), IsOkAndHolds(std::nullopt));
}

TEST_F(StoreSessions, AreAddedOnce) {
  add({.session_id = "s"});
  EXPECT_THAT(store_->add_session({.session_id = "s"}),
              IsError(ErrorCode::conflict, HasSubstr("session_id")));
}

TEST_F(StoreSessions, RefuseTextThatJsonCannotCarry) {
  EXPECT_FALSE(store_->add_session({.session_id = "s", .tags = {"\xff"}}).ok());
  EXPECT_THAT(store_->find_session("s"), IsOkAndHolds(std::nullopt));
}

TEST_F(StoreSessions, ChangeProjectAndEnd) {
  auto session = add({.session_id = "s", .sdk_version = "1"});
  session.project_id = "p";
  session.finish_reason = SessionFinishReason::success;
  session.finish_detail = "done";
  session.has_expired = true;
  session.sdk_version = "2";
  ASSERT_THAT(store_->update_session(session), IsOk());

  const auto found = store_->find_session("s").value().value();

  EXPECT_EQ(found.project_id, "p");
  EXPECT_EQ(found.finish_reason, SessionFinishReason::success);
  EXPECT_EQ(found.finish_detail, "done");
  EXPECT_TRUE(found.has_expired);
  EXPECT_EQ(found.sdk_version, "1");
}

TEST_F(StoreSessions, CannotChangeBeforeTheyAreAdded) {
  EXPECT_THAT(store_->update_session({.session_id = "s"}),
              IsError(ErrorCode::not_found, HasSubstr("session 's'")));
}

TEST_F(StoreSessions, AreListedNewestFirstByOwner) {
  for (const auto* id : {"b", "a", "c"}) add({.session_id = id});
  add({.session_id = "other", .owner = "bob"});

  const auto page = store_->list_sessions("ada", {.limit = 2, .offset = 0}).value();
  const auto rest = store_->list_sessions("ada", {.limit = 2, .offset = 2}).value();

  EXPECT_THAT(page.items, ElementsAre(session_id("c"), session_id("a")));
  EXPECT_EQ(page.total, 3);
  EXPECT_THAT(rest.items, ElementsAre(session_id("b")));
  EXPECT_EQ(rest.total, 3);
}

TEST_F(StoreSessions, RefuseNegativeRanges) {
  EXPECT_THAT(store_->list_sessions("ada", {.limit = -1}),
              IsError(ErrorCode::invalid_argument, HasSubstr("limit -1")));
  EXPECT_THAT(store_->list_runs("ada", "", {.offset = -2}),
              IsError(ErrorCode::invalid_argument, HasSubstr("offset -2")));
  EXPECT_THAT(store_->list_checkpoints("ada", {.offset = -3}),
              IsError(ErrorCode::invalid_argument, HasSubstr("offset -3")));
  EXPECT_THAT(store_->search_sessions({.limit = -4}),
              IsError(ErrorCode::invalid_argument, HasSubstr("limit -4")));
}

// PROTOCOL 9.46
TEST_F(StoreSessions, AreFoundByTheWordsOfTheirNames) {
  add_named("1", "Night Run of the LAB");
  add_named("2", "nightly");
  add({.session_id = "3"});

  EXPECT_THAT(search({.display_name = "night"}), ElementsAre("2", "1"));
  EXPECT_THAT(search({.display_name = "  lab \t NIGHT "}), ElementsAre("1"));
  EXPECT_THAT(search({.display_name = "ight"}), ElementsAre("2", "1"));
  EXPECT_THAT(search({.display_name = "night%"}), IsEmpty());
}

TEST_F(StoreSessions, AreFoundByIdOrName) {
  add_named("1", "one");
  add_named("2", "two");
  add_named("3", "three");

  EXPECT_THAT(search({.session_id = "1"}), ElementsAre("1"));
  EXPECT_THAT(search({.session_id = "1", .display_name = "two"}), ElementsAre("2", "1"));
  EXPECT_THAT(search({.session_id = "' OR 1 = 1 --"}), IsEmpty());
}

TEST_F(StoreSessions, AreFoundByAllOfTheMetadata) {
  add({.session_id = "1", .user_metadata = {{"k", "v"}, {"l", "w"}}});
  add({.session_id = "2", .user_metadata = {{"k", "v"}}});

  EXPECT_THAT(search({.user_metadata = {{"k", "v"}}}), ElementsAre("2", "1"));
  EXPECT_THAT(search({.user_metadata = {{"k", "v"}, {"l", "w"}}}), ElementsAre("1"));
  EXPECT_THAT(search({.user_metadata = {{"k", "w"}}}), IsEmpty());
}

TEST_F(StoreSessions, AreFoundByProject) {
  add({.session_id = "1", .project_id = "p"});
  add({.session_id = "2", .project_id = "q"});
  add({.session_id = "3"});

  EXPECT_THAT(search({.project_ids = {{"p", "q"}}}), ElementsAre("2", "1"));
  EXPECT_THAT(search({.project_ids = {{""}}}), ElementsAre("3"));
  EXPECT_THAT(search({.project_ids = std::vector<std::string>()}), IsEmpty());
}

TEST_F(StoreSessions, AreFoundByStatus) {
  using Finished = ClientFinishedSessionStatusQuery;
  add({.session_id = "active"});
  add({.session_id = "expired", .has_expired = true});
  add({.session_id = "good", .finish_reason = SessionFinishReason::success});
  add({.session_id = "bad", .finish_reason = SessionFinishReason::errored});

  EXPECT_THAT(search({.statuses = {{ActiveSessionStatusQuery()}}}), ElementsAre("active"));
  EXPECT_THAT(search({.statuses = {{Finished()}}}), ElementsAre("bad", "good"));
  EXPECT_THAT(search({.statuses = {{ActiveSessionStatusQuery(),
                                    Finished{.reasons = {{SessionFinishReason::success}}}}}}),
              ElementsAre("good", "active"));
  EXPECT_THAT(search({.statuses = {{CancelledSessionStatusQuery(), FailedSessionStatusQuery()}}}),
              ElementsAre("expired"));
}

TEST_F(StoreSessions, AreFoundPageByPage) {
  for (const auto* id : {"1", "2", "3", "4"}) add({.session_id = id});
  const auto third = store_->find_session("3").value().value();

  EXPECT_THAT(search({.limit = 2}), ElementsAre("4", "3"));
  EXPECT_THAT(search({.limit = 2, .after = {{third.created_at, "3"}}}), ElementsAre("2", "1"));
}

TEST_F(StoreSessions, AreFoundOnceWhenTheyBeganTogether) {
  for (const auto* id : {"b", "c", "a"}) {
    store_->add_session({.session_id = id, .owner = "ada", .created_at = now()}).value();
  }
  EXPECT_THAT(search({.limit = 2}), ElementsAre("c", "b"));
  EXPECT_THAT(search({.limit = 2, .after = {{now(), "b"}}}), ElementsAre("a"));
}

TEST_F(StoreSessions, AreFoundByTheirOwnerAlone) {
  add({.session_id = "s", .owner = "bob"});
  EXPECT_THAT(search({.session_id = "s"}), IsEmpty());
}

// ---- Runs and samplers

TEST_F(StoreSessions, KeepTheirRuns) {
  const RunRecord run = {
      .run_id = "s:train:0",
      .session_id = "s",
      .owner = "ada",
      .project_id = "p",
      .base_model = "Qwen/Qwen3-8B",
      .lora = {.rank = 7, .seed = -5, .train_unembed = false, .train_attn = false},
      .optimizer = OtherOptimizerConfig{.type = "new", .members = {{"rate", 0.5}}},
      .user_metadata = {{"k", "v"}},
      .created_at = now(),
      .last_request_at = now() + 1s};
  store_->add_run(run).value();
  reopen();

  EXPECT_THAT(store_->find_run("s:train:0"), IsOkAndHolds(run));
}

TEST_F(StoreSessions, KeepTheOptimizersOfTheirRuns) {
  add_run({.run_id = "1", .optimizer = AdamOptimizerConfig()});
  add_run({.run_id = "2", .optimizer = DimuonOptimizerConfig()});

  EXPECT_EQ(store_->find_run("1").value()->optimizer, OptimizerConfig(AdamOptimizerConfig()));
  EXPECT_EQ(store_->find_run("2").value()->optimizer, OptimizerConfig(DimuonOptimizerConfig()));
}

TEST_F(StoreSessions, KeepRunsApart) {
  add_run({.run_id = "r"});
  EXPECT_THAT(store_->add_run({.run_id = "r"}), IsError(ErrorCode::conflict, HasSubstr("run_id")));
  EXPECT_THAT(store_->find_run("q"), IsOkAndHolds(std::nullopt));
}

TEST_F(StoreSessions, KnowWhenARunWasLastUsed) {
  add_run({.run_id = "r"});
  ASSERT_THAT(store_->touch_run("r", now() + 5s), IsOk());

  EXPECT_EQ(store_->find_run("r").value()->last_request_at, now() + 5s);
  EXPECT_THAT(store_->touch_run("q", now()),
              IsError(ErrorCode::not_found, HasSubstr("training run 'q'")));
}

// PROTOCOL 9.22
TEST_F(StoreSessions, ListRunsNewestFirst) {
  add_run({.run_id = "1", .project_id = "p"});
  add_run({.run_id = "2"});
  add_run({.run_id = "3", .project_id = "p"});
  add_run({.run_id = "4", .owner = "bob", .project_id = "p"});

  const auto all = store_->list_runs("ada", "", {.limit = 2, .offset = 1}).value();
  const auto project = store_->list_runs("ada", "p", {}).value();

  EXPECT_THAT(all.items, ElementsAre(run_id("2"), run_id("1")));
  EXPECT_EQ(all.total, 3);
  EXPECT_THAT(project.items, ElementsAre(run_id("3"), run_id("1")));
  EXPECT_EQ(project.total, 2);
}

// PROTOCOL 9.22
TEST_F(StoreSessions, ListRunsOfOthersThatHaveAPublicCheckpoint) {
  const auto add_with = [&](const std::string& id, CheckpointRecord checkpoint) {
    const auto run = add_run({.run_id = id, .owner = "bob", .project_id = "p"});
    checkpoint.run_id = id;
    checkpoint.owner = run.owner;
    put(checkpoint);
  };
  add_run({.run_id = "mine", .project_id = "p"});
  add_with("private", {.name = "a"});
  add_with("public", {.name = "a", .is_public = true});
  add_with("expired", {.name = "a", .is_public = true, .expires_at = now() + 10s});
  clock_.advance(20s);
  const auto list = [&](std::string_view project, PageRange range) {
    return store_->list_runs("ada", project, range, AccessScope::accessible).value();
  };

  EXPECT_THAT(list("", {}).items, ElementsAre(run_id("public"), run_id("mine")));
  EXPECT_EQ(list("", {}).total, 2);
  EXPECT_THAT(list("", {.limit = 1, .offset = 1}).items, ElementsAre(run_id("mine")));
  EXPECT_THAT(list("p", {}).items, ElementsAre(run_id("mine")));
}

// PROTOCOL 9.32
TEST_F(StoreSessions, KnowTheirRunsAndSamplersInOrder) {
  add_run({.run_id = "s:train:1", .session_id = "s"});
  add_run({.run_id = "s:train:0", .session_id = "s"});
  add_run({.run_id = "t:train:0", .session_id = "t"});
  store_->add_sampler({.sampler_id = "s:sample:0", .session_id = "s"}).value();
  store_->add_sampler({.sampler_id = "t:sample:0", .session_id = "t"}).value();

  EXPECT_THAT(store_->run_ids_of_session("s"), IsOkAndHolds(ElementsAre("s:train:1", "s:train:0")));
  EXPECT_THAT(store_->sampler_ids_of_session("s"), IsOkAndHolds(ElementsAre("s:sample:0")));
}

TEST_F(StoreSessions, KeepTheirSamplers) {
  const SamplerRecord sampler = {.sampler_id = "s:sample:0",
                                 .session_id = "s",
                                 .owner = "ada",
                                 .base_model = "m",
                                 .model_path = "tinker://r/sampler_weights/a"};
  store_->add_sampler(sampler).value();
  store_->add_sampler({.sampler_id = "s:sample:1"}).value();
  reopen();

  EXPECT_THAT(store_->find_sampler("s:sample:0"), IsOkAndHolds(sampler));
  EXPECT_EQ(store_->find_sampler("s:sample:1").value()->model_path, std::nullopt);
  EXPECT_THAT(store_->find_sampler("s:sample:2"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store_->add_sampler({.sampler_id = "s:sample:0"}),
              IsError(ErrorCode::conflict, HasSubstr("sampler_id")));
}

}  // namespace
}  // namespace tinker::server::store_sessions_test
