#include "session/credentials.h"

#include <array>
#include <filesystem>

#include <gmock/gmock.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::session::credentials_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::Not;
using testing::TemporaryFolder;

using Text = std::optional<std::string>;

/// Sources of one case; what is absent is unset.
struct Sources {
  Text argument = {};
  Text api_key = {};
  Text command = {};
  Text stored = {};
};

class Credentials : public ::testing::Test {
 protected:
  CredentialOptions options(const Sources& sources, std::string base_url = {}) {
    if (sources.stored != stored_) std::filesystem::remove_all(home_.path(".tinker"));
    if (sources.stored == stored_) {
      // Already there.
    } else if (sources.stored == "broken") {
      home_.write(".tinker/credentials.json", R"({"keys":{"d":{"key":"tml-hush"}}})");
    } else if (sources.stored) {
      home_.write(".tinker/credentials.json",
                  R"({"default":"d","keys":{"d":{"type":"manual","name":"n","key":")" +
                      *sources.stored + "\"}}}");
    }
    stored_ = sources.stored;
    CredentialOptions out;
    if (sources.argument) out.api_key = Secret(*sources.argument);
    out.env = [sources, home = home_.path()](const char* name) -> Text {
      const std::string_view asked = name;
      if (asked == "TINKER_API_KEY") return sources.api_key;
      if (asked == "TINKER_CREDENTIAL_CMD") return sources.command;
      if (asked == "HOME") return home;
      return std::nullopt;
    };
    out.base_url = std::move(base_url);
    return out;
  }

  TemporaryFolder home_;
  Text stored_;  // what the file holds
};

/// Upper case for what was chosen, lower case for why nothing was.
char letter(const Error& error) {
  EXPECT_THAT(error.to_string(), Not(HasSubstr("hush")));
  EXPECT_THAT(error.to_string(), Not(HasSubstr("bad-")));
  if (error.message.starts_with("no API key")) return 'm';
  if (error.message.find("does not begin with 'tml-'") != std::string::npos) return 'b';
  if (error.message.find("set TINKER_CREDENTIAL_CMD") != std::string::npos) return 'c';
  return error.context.empty() ? '?' : 'f';
}

char letter(const Secret& key) {
  const std::string& text = key.expose();
  return text.ends_with("arg") ? 'A' : text.ends_with("env") ? 'E' : 'S';
}

char letter(const Result<CredentialSource>& selected) {
  if (!selected) return letter(selected.error());
  if (const auto* key = std::get_if<Secret>(&*selected)) return letter(*key);
  return std::get<CredentialCommand>(*selected).text == Secret("print one") ? 'C' : '?';
}

const std::array<Text, 5> kArguments = {std::nullopt, "", "tml-arg", "bad-arg", "eyJarg"};
const std::array<Text, 5> kVariables = {std::nullopt, "", "tml-env", "bad-env", "eyJenv"};
const std::array<Text, 3> kCommands = {std::nullopt, "", "print one"};
const std::array<Text, 5> kStored = {std::nullopt, "tml-sto", "bad-sto", "eyJsto", "broken"};

// What the official package 0.36.0 does with all 750 combinations of the arrays above: a group per
// argument, in it a letter per TINKER_API_KEY.
const char* official_letters(bool is_enforced, const Text& stored, bool has_command) {
  if (is_enforced && has_command) return "CCCCE CCCCE CCCCC CCCCC AAAAA ";
  if (is_enforced) return "ccccE ccccE ccccc ccccc AAAAA ";
  if (has_command) return "CCECE CCECE AAAAA CCCCC AAAAA ";
  if (!stored) return "mmEbE mmEbE AAAAA bbbbb AAAAA ";
  if (stored == "bad-sto") return "bbEbE bbEbE AAAAA bbbbb AAAAA ";
  if (stored == "broken") return "ffEbE ffEbE AAAAA bbbbb AAAAA ";
  return "SSEbE SSEbE AAAAA bbbbb AAAAA ";
}

TEST_F(Credentials, AreSelectedAsTheOfficialClientDoes) {  // R3.1, R3.4
  int combinations = 0;
  for (const bool is_enforced : {false, true}) {
    for (const Text& stored : kStored) {
      for (const Text& command : kCommands) {
        std::string found;
        for (const Text& argument : kArguments) {
          for (const Text& api_key : kVariables) {
            const Sources sources = {
                .argument = argument, .api_key = api_key, .command = command, .stored = stored};
            found += letter(select_credential(options(sources), is_enforced));
            ++combinations;
          }
          found += ' ';
        }
        const bool has_command = command == "print one";
        EXPECT_EQ(found, official_letters(is_enforced, stored, has_command))
            << is_enforced << " " << stored.value_or("none") << " " << command.value_or("none");
      }
    }
  }
  EXPECT_EQ(combinations, 750);
}

// Likewise 75 combinations of get_tinker_token() and tinker_has_credentials().
TEST_F(Credentials, AreReportedAsTheOfficialClientDoes) {  // R3.16
  for (const Text& stored : kStored) {
    const bool is_stored = stored == "tml-sto" || stored == "eyJsto";
    for (const Text& command : kCommands) {
      std::string tokens;
      std::string has;
      for (const Text& api_key : kVariables) {
        const auto asked = options({.api_key = api_key, .command = command, .stored = stored});
        const auto token = configured_token(asked);
        tokens += token ? letter(*token) : '-';
        has += has_credentials(asked) ? 'y' : 'n';
      }
      EXPECT_EQ(tokens, is_stored ? "SSE-E" : "--E-E") << stored.value_or("none");
      EXPECT_EQ(has,
                command == "print one" ? "yyyyy"
                : is_stored            ? "yyyny"
                                       : "nnyny")
          << stored.value_or("none");
    }
  }
}

TEST_F(Credentials, NeedNoPrefixForOtherServers) {  // a stated difference from R3.1
  const std::string server = "http://localhost:8000";
  EXPECT_EQ(letter(select_credential(options({.argument = "my-arg"}, server), false)), 'A');
  EXPECT_EQ(letter(select_credential(options({.api_key = "my-env"}, server), false)), 'E');
  EXPECT_EQ(letter(select_credential(options({.stored = "my-sto"}, server), false)), 'S');
  EXPECT_TRUE(configured_token(options({.api_key = "my-env"}, server)).has_value());
  EXPECT_THAT(select_api_key(options({.argument = "my-arg"}, server)), IsOk());
  // The official host at another path is still the official host.
  const std::string official = "https://tinker.thinkingmachines.dev/other";
  EXPECT_EQ(letter(select_credential(options({.argument = "my-arg"}, official), false)), 'b');
}

TEST_F(Credentials, MustFitIntoAHeader) {
  for (const std::string key : {"tml-hush\n", "eyJhush\r\nX: y", "tml-hush\x7f", "\thush"}) {
    EXPECT_THAT(select_credential(options({.argument = key}, "http://other.test"), false),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("api_key contains a control"), Not(HasSubstr("hush")))));
    // A malformed key falls back to the command (R3.4).
    const auto with_command = options({.argument = key, .command = "print one"});
    EXPECT_EQ(letter(select_credential(with_command, false)), 'C');
  }
  EXPECT_THAT(select_credential(options({.stored = ""}, "http://other.test"), false),
              IsError(ErrorCode::invalid_argument, HasSubstr("is empty")));
}

TEST_F(Credentials, NameTheWaysToGiveOne) {  // R3.1
  EXPECT_THAT(select_credential(options({}), false),
              IsError(ErrorCode::invalid_argument,
                      "no API key: pass one as api_key, or set TINKER_API_KEY"));
  EXPECT_THAT(select_credential(options({}, "http://other.test"), false),
              IsError(ErrorCode::invalid_argument,
                      "no API key: pass one as api_key, or set TINKER_API_KEY; any text will do "
                      "for a server of your own"));
}

TEST_F(Credentials, TellWhereTheyCameFrom) {
  const auto name = [](const CredentialOptions& from) {
    return name_of(select_credential(from, false).value(), from);
  };

  EXPECT_EQ(name(options({.argument = "tml-arg", .api_key = "tml-env"})), "api_key");
  EXPECT_EQ(name(options({.api_key = "tml-env"})), "TINKER_API_KEY");
  EXPECT_EQ(name(options({.command = "print one"})), "TINKER_CREDENTIAL_CMD");
  EXPECT_EQ(name(options({.stored = "tml-stored"})), "the credential file");
}

TEST_F(Credentials, SayThatHomeIsMissing) {
  CredentialOptions nowhere;
  nowhere.env = [](const char*) -> Text { return std::nullopt; };
  EXPECT_THAT(select_credential(nowhere, false),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("no API key"), HasSubstr("HOME is not set"))));
  EXPECT_EQ(configured_token(nowhere), std::nullopt);
}

TEST_F(Credentials, TakeTheHomeOfTheOptionsFirst) {
  auto elsewhere = options({.stored = "tml-sto"});
  elsewhere.home = home_.path();
  elsewhere.env = [](const char*) -> Text { return std::nullopt; };
  EXPECT_EQ(letter(select_credential(elsewhere, false)), 'S');
}

TEST_F(Credentials, ConsultTheFileOnlyWhenNothingElseIsSet) {  // R3.15
  EXPECT_EQ(letter(select_credential(options({.stored = "broken"}), false)), 'f');
  EXPECT_EQ(letter(select_credential(options({.api_key = "tml-env", .stored = "broken"}), false)),
            'E');
  EXPECT_EQ(letter(select_credential(options({.command = "print one", .stored = "broken"}), false)),
            'C');
}

TEST_F(Credentials, CommandHidesTheStoredKeyEvenWhereItCannotWork) {  // R3.17
  const auto key = [&](const Sources& sources) { return select_api_key(options(sources)); };
  EXPECT_THAT(key({.command = "print one", .stored = "tml-sto"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("no API key")));
  EXPECT_EQ(*key({.stored = "tml-sto"}), Secret("tml-sto"));
  EXPECT_EQ(*key({.api_key = "tml-env", .command = "print one"}), Secret("tml-env"));
  EXPECT_EQ(*key({.argument = "tml-arg", .api_key = "tml-env"}), Secret("tml-arg"));
  EXPECT_THAT(key({.argument = "bad-arg", .command = "print one"}),
              IsError(ErrorCode::invalid_argument, Not(HasSubstr("bad-"))));
}

TEST_F(Credentials, AskTheServerOfTheEnvironmentWhenNoneIsGiven) {
  auto asked = options({.argument = "my-arg"});
  const auto env = asked.env;
  asked.env = [env](const char* name) -> Text {
    return std::string_view(name) == "TINKER_BASE_URL" ? Text("http://other.test") : env(name);
  };
  EXPECT_EQ(letter(select_credential(asked, false)), 'A');
}

TEST_F(Credentials, ComeFromAProviderOfTheirKind) {
  const testing::VirtualRuntime time;
  const auto core = time.runtime().core();
  const auto provider = make_provider(core, CredentialSource(Secret("tml-arg")));
  auto token = core->spawn(core->scope(), provider->token());
  const auto result = token.get();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(*result, Secret("tml-arg"));
}

}  // namespace
}  // namespace tinker::session::credentials_test
