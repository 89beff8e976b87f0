#include "tinker/hub.h"

#include <map>

#include <gmock/gmock.h>

#include "support/hub_files.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"
#include "tokenizer/hub_core.h"

namespace tinker::hub_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::FakeTransport;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::kTinyTokenizer;
using ::tinker::testing::put_into_cache;
using ::tinker::testing::TemporaryFolder;
using ::tinker::testing::VirtualRuntime;
using ::tinker::tokenizer::HubSettings;
using namespace std::chrono_literals;

constexpr const char* kCommit = "cccccccccccccccccccccccccccccccccccccccc";

TEST(TokenizerId, FollowsTheNamesOfModels) {  // R16.2, R16.3
  const auto repository = [](std::string_view model) {
    return TokenizerId::of_model(model).value().repository;
  };
  EXPECT_EQ(repository("Qwen/Qwen3-8B"), "Qwen/Qwen3-8B");
  EXPECT_EQ(repository("Qwen/Qwen3-8B:peft:262144"), "Qwen/Qwen3-8B");
  EXPECT_EQ(repository("org/model/variant"), "org/model");
  EXPECT_EQ(repository("org/model/variant:x/y/z"), "org/model");
  EXPECT_EQ(repository("gpt2"), "gpt2");
  for (const char* llama : {"meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.3-70B-Instruct:x"}) {
    EXPECT_EQ(repository(llama), "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer");
  }
  EXPECT_EQ(repository("meta-llama/Llama-2-7b"), "meta-llama/Llama-2-7b");
  EXPECT_EQ(TokenizerId::of_model("Qwen/Qwen3-8B").value().revision, "main");
}

TEST(TokenizerId, TakesWhatTheServerNames) {  // R16.1, R16.6
  EXPECT_THAT(TokenizerId::of_model("meta-llama/Llama-3.1-8B", "org/own:x"),
              IsOkAndHolds(TokenizerId{.repository = "org/own"}));
  EXPECT_THAT(TokenizerId::of_model("org/model", ""),
              IsError(ErrorCode::invalid_argument, HasSubstr("repository: expected")));
}

TEST(TokenizerId, PinsTheRevisionsWhoseCodeIsKnown) {  // R16.5
  const std::map<std::string, TokenizerId> pinned = {
      {"moonshotai/Kimi-K2-Thinking",
       {"moonshotai/Kimi-K2-Thinking", "612681931a8c906ddb349f8ad0f582cb552189cd"}},
      {"moonshotai/Kimi-K2.5",
       {"moonshotai/Kimi-K2.5", "4d01dfe0332d63057c186e0b262165819efb6611"}},
      {"moonshotai/Kimi-K2.5-Text-Only",
       {"moonshotai/Kimi-K2.5", "4d01dfe0332d63057c186e0b262165819efb6611"}},
      {"moonshotai/Kimi-K2.6",
       {"moonshotai/Kimi-K2.6", "b5aabbfb20227ed42becbf5541dbffd213942c58"}},
      {"moonshotai/Kimi-K3", {"moonshotai/Kimi-K3", "f831ab66814297da540d832a5235f8e904f29d06"}}};
  for (const auto& [name, id] : pinned) {
    EXPECT_THAT(TokenizerId::of_model(name), IsOkAndHolds(id));
    EXPECT_THAT(TokenizerId::of_model("org/model", name), IsOkAndHolds(id));
  }
}

TEST(TokenizerId, SaysWhatIsOnNoHub) {  // R16.4
  for (const char* name : {"TML/x", "thinkingmachines/x"}) {
    EXPECT_THAT(TokenizerId::of_model(name),
                IsError(ErrorCode::invalid_argument, AllOf(HasSubstr(name), HasSubstr("no hub"))));
  }
  for (const char* name : {"", "a/b/c/d", "/a", "a/", "a b", "..", "a--b", "-a", "a."}) {
    EXPECT_THAT(TokenizerId::of_model(name),
                IsError(ErrorCode::invalid_argument, HasSubstr("repository: expected")));
  }
}

HubSettings settings(const std::map<std::string, std::string>& variables,
                     const HubOptions& options = {}) {
  return HubSettings::resolve(options,
                              [&](const char* name) -> std::optional<std::string> {
                                const auto found = variables.find(name);
                                if (found == variables.end()) return std::nullopt;
                                return found->second;
                              })
      .value();
}

TEST(HubSettings, HasTheDefaultsOfThePythonTools) {
  const auto plain = settings({{"HOME", "/home/me"}});
  EXPECT_EQ(plain.endpoint, "https://huggingface.co");
  EXPECT_EQ(plain.cache, "/home/me/.cache/huggingface/hub");
  EXPECT_TRUE(plain.token.empty());
  EXPECT_FALSE(plain.is_offline);
}

TEST(HubSettings, ReadsTheEnvironment) {
  using Variables = std::map<std::string, std::string>;
  const auto cache = [](Variables variables) {
    variables.emplace("HOME", "/home/me");
    return settings(variables).cache;
  };
  EXPECT_EQ(cache({{"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_EQ(cache({{"HF_HOME", "~/h"}, {"XDG_CACHE_HOME", "/x"}}), "/home/me/h/hub");
  EXPECT_EQ(cache({{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/h"}}), "/c");
  EXPECT_EQ(cache({{"HUGGINGFACE_HUB_CACHE", "/old"}}), "/old");
  EXPECT_EQ(settings({{"HF_ENDPOINT", "https://mirror.test/hf/"}, {"HOME", "/"}}).endpoint,
            "https://mirror.test/hf");
  EXPECT_EQ(settings({{"HF_TOKEN", " hf_x\n"}, {"HOME", "/"}}).token, Secret("hf_x"));
  for (const char* yes : {"1", "ON", "true", "Yes"}) {
    EXPECT_TRUE(settings({{"HF_HUB_OFFLINE", yes}, {"HOME", "/"}}).is_offline);
  }
  EXPECT_FALSE(settings({{"HF_HUB_OFFLINE", "0"}, {"HOME", "/"}}).is_offline);
}

TEST(HubSettings, ReadsTheTokenFromItsFile) {
  const TemporaryFolder home;
  home.write("token", "hf_file\n");
  home.write("other", "hf_other");
  EXPECT_EQ(settings({{"HF_HOME", home.path()}}).token, Secret("hf_file"));
  EXPECT_EQ(settings({{"HF_HOME", home.path()}, {"HF_TOKEN_PATH", home.path("other")}}).token,
            Secret("hf_other"));
  EXPECT_EQ(settings({{"HF_HOME", home.path()}, {"HF_TOKEN", "hf_env"}}).token, Secret("hf_env"));
}

TEST(HubSettings, PrefersTheOptions) {
  const auto chosen = settings({{"HF_ENDPOINT", "https://env.test"},
                                {"HF_TOKEN", "hf_env"},
                                {"HF_HUB_OFFLINE", "1"},
                                {"HF_HOME", "/env"}},
                               {.endpoint = "https://option.test",
                                .token = Secret("hf_option"),
                                .cache = "/option",
                                .is_offline = false});
  EXPECT_EQ(chosen.endpoint, "https://option.test");
  EXPECT_EQ(chosen.token, Secret("hf_option"));
  EXPECT_EQ(chosen.cache, "/option");
  EXPECT_FALSE(chosen.is_offline);
}

TEST(HubSettings, NeedsAPlaceForTheCache) {
  EXPECT_THAT(HubSettings::resolve({}, [](const char*) { return std::nullopt; }),
              IsError(ErrorCode::invalid_argument, HasSubstr("HF_HOME")));
}

/// A hub in virtual time with one repository.
struct HubTest : ::testing::Test {
  [[nodiscard]] Hub open(bool is_offline = false) const {
    return Hub::open({.endpoint = "https://hub.test",
                      .token = Secret("hf_secret"),
                      .cache = cache.path(),
                      .is_offline = is_offline,
                      .transport = server,
                      .runtime = time.runtime()})
        .value();
  }
  /// The path of the file at the commit that the hub names.
  static std::string at_commit() {
    return std::string("/org/model/resolve/") + kCommit + "/tokenizer.json";
  }
  static FakeReply whole(const std::string& content) {
    return {.body = content, .headers = {{"X-Repo-Commit", kCommit}, {"ETag", "\"tag\""}}};
  }

  VirtualRuntime time;
  TemporaryFolder cache;
  std::shared_ptr<FakeTransport> server = std::make_shared<FakeTransport>(time.runtime());
};

TEST_F(HubTest, KeepsTheTokenizersUsedLast) {  // R16.6
  put_into_cache(cache, "models--org--model");
  const Hub hub = open(true);
  EXPECT_THAT(hub.tokenizer("org/model").get(), IsOk());

  std::filesystem::remove_all(cache.path("models--org--model"));

  const auto again = hub.tokenizer("org/model:suffix").get();
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->encode("ab"), ElementsAre(2));
  EXPECT_THAT(hub.tokenizer(TokenizerId{"org/model", "v2"}).get(),
              IsError(ErrorCode::not_found, HasSubstr("not in the cache")));
}

TEST_F(HubTest, SendsNothingOffline) {
  put_into_cache(cache, "models--org--model");
  EXPECT_THAT(open(true).file("org/model", "tokenizer.json").get(),
              IsOkAndHolds(cache.path(std::string("models--org--model/snapshots/") + kCommit +
                                      "/tokenizer.json")));
  EXPECT_THAT(open(true).file("org/model", "other.json").get(),
              IsError(ErrorCode::not_found, HasSubstr("HF_HUB_OFFLINE")));
  EXPECT_THAT(server->sent(), IsEmpty());
}

TEST_F(HubTest, WaitsAsLongAsTheHubAsks) {
  server->reply("/org/model/resolve/main/tokenizer.json",
                {{.status = 429, .headers = {{"Retry-After", "7"}}}, whole(kTinyTokenizer)});
  server->reply(at_commit(), {whole(kTinyTokenizer)});

  EXPECT_THAT(open().tokenizer("org/model").get(), IsOk());
  EXPECT_EQ(time.elapsed(), 7s);
}

TEST_F(HubTest, GivesUpAfterAFewTries) {
  server->reply("/tokenizer.json", {{.status = 500}});

  EXPECT_THAT(open().tokenizer("org/model").get(),
              IsError(ErrorCode::server_error, HasSubstr("https://hub.test answers 500")));
  EXPECT_THAT(server->sent(), SizeIs(4));
}

TEST_F(HubTest, FollowsRedirectsOfItsOwnWithTheTokenAndOthersWithout) {
  server->reply("/org/model/resolve/main/tokenizer.json",
                {{.status = 307, .headers = {{"Location", "/moved/here"}}}});
  server->reply(at_commit(),
                {{.status = 302, .headers = {{"Location", "https://storage.test/x?signed=1"}}}});
  server->reply("/moved/here", {whole(kTinyTokenizer)});
  server->reply("/x", {{.body = kTinyTokenizer}});

  EXPECT_THAT(open().tokenizer("org/model").get(), IsOk());
  const auto within = server->sent("/moved/here");
  const auto outside = server->sent("/x");
  EXPECT_EQ(within.at(0).request.headers.find("authorization"), "Bearer hf_secret");
  EXPECT_EQ(outside.at(0).request.headers.find("authorization"), std::nullopt);
}

TEST_F(HubTest, FollowsNoRedirectFromTlsToPlainText) {
  server->reply("/tokenizer.json",
                {{.status = 302, .headers = {{"Location", "http://storage.test/x?signed=1"}}}});

  EXPECT_THAT(open().tokenizer("org/model").get(),
              IsError(ErrorCode::invalid_response, Not(HasSubstr("signed"))));
}

TEST_F(HubTest, EndsAfterTooManyRedirects) {
  server->reply("/tokenizer.json", {{.status = 307, .headers = {{"Location", "tokenizer.json"}}}});

  EXPECT_THAT(open().tokenizer("org/model").get(),
              IsError(ErrorCode::unexpected_status, HasSubstr("redirects")));
}

TEST_F(HubTest, RefusesAnAnswerOfAnotherLength) {
  server->reply("/org/model/resolve/main/tokenizer.json", {whole(kTinyTokenizer)});
  server->reply(at_commit(), {whole("shorter")});

  EXPECT_THAT(open().tokenizer("org/model").get(),
              IsError(ErrorCode::invalid_response, HasSubstr("sends 7 bytes")));
}

TEST_F(HubTest, RefusesABodyThatIsPacked) {
  auto packed = whole(kTinyTokenizer);
  packed.headers.add("Content-Encoding", "gzip");
  server->reply("/tokenizer.json", {packed});

  EXPECT_THAT(open().tokenizer("org/model").get(),
              IsError(ErrorCode::invalid_response, HasSubstr("packed by gzip")));
}

TEST_F(HubTest, NamesTheFileThatCannotBeRead) {
  put_into_cache(cache, "models--org--model", "main", "tokenizer.json", "{");
  EXPECT_THAT(open(true).tokenizer("org/model").get(),
              IsError(ErrorCode::invalid_argument, ::testing::_));
}

TEST_F(HubTest, NamesTheCacheThatCannotBeWritten) {
  cache.write("file", "");
  server->reply("/tokenizer.json", {whole(kTinyTokenizer)});
  const auto hub = Hub::open({.endpoint = "https://hub.test",
                              .cache = cache.path("file/below"),
                              .transport = server,
                              .runtime = time.runtime()})
                       .value();
  EXPECT_THAT(hub.tokenizer("org/model").get(),
              IsError(ErrorCode::io_error, HasSubstr(cache.path("file/below"))));
}

TEST_F(HubTest, RemembersWhatARepositoryDoesNotHave) {
  server->handle("/tokenizer.json", [](const http::Request&) {
    return FakeReply{.status = 404,
                     .headers = {{"X-Error-Code", "EntryNotFound"}, {"X-Repo-Commit", kCommit}}};
  });
  EXPECT_THAT(open().file("org/model", "tokenizer.json").get(),
              IsError(ErrorCode::not_found, HasSubstr("has no file tokenizer.json")));
  EXPECT_THAT(open(true).file("org/model", "tokenizer.json").get(),
              IsError(ErrorCode::not_found, HasSubstr("has no file tokenizer.json")));
  EXPECT_TRUE(std::filesystem::exists(
      cache.path(std::string("models--org--model/.no_exist/") + kCommit + "/tokenizer.json")));
}

TEST_F(HubTest, CanBeCancelled) {
  server->reply("/tokenizer.json", {{.never = true}});
  auto future = open().tokenizer("org/model");
  time.run_ready();
  future.cancel();
  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, ::testing::_));
}

}  // namespace
}  // namespace tinker::hub_test
