#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/chat_tokenizer.h"
#include "tinker/testing/matchers.h"
#include "tinker/training_data.h"

namespace tinker::render::data_row_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::chat_tokenizer;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

Message says(std::string role, std::string text) {
  return {.role = std::move(role), .content = std::move(text)};
}

auto is_refused(std::string_view why) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(std::string(why)));
}

// ---- what a line is ----

TEST(ParseDataRow, ReadsConversations) {
  const auto row = parse_data_row(
      R"({"id": 1, "messages": [{"role":"user","content":"Hi"}], "tools": [{"name":"f"}]})");

  ASSERT_THAT(row, IsOk());
  const auto& conversation = std::get<ConversationRow>(*row).conversation;
  EXPECT_THAT(conversation.messages, ElementsAre(says("user", "Hi")));
  EXPECT_THAT(conversation.tools, SizeIs(1));
}

TEST(ParseDataRow, ReadsPromptsWithTheirCompletions) {
  const ConversationRow expected = {
      .conversation = {.messages = {says("user", "Q"), says("assistant", "A")}}, .prompt_size = 1};

  EXPECT_THAT(parse_data_row(R"({"prompt": "Q", "completion": "A"})"),
              IsOkAndHolds(DataRow(expected)));
  EXPECT_THAT(parse_data_row(R"({"prompt": [{"role":"user","content":"Q"}],)"
                             R"( "completion": [{"role":"assistant","content":"A"}]})"),
              IsOkAndHolds(DataRow(expected)));
}

TEST(ParseDataRow, ReadsPreferences) {
  const PreferenceRow expected = {.prompt = {says("user", "Q")},
                                  .chosen = {says("assistant", "good")},
                                  .rejected = {says("assistant", "bad")}};

  EXPECT_THAT(parse_data_row(R"({"prompt": "Q", "chosen": "good", "rejected": "bad"})"),
              IsOkAndHolds(DataRow(expected)));
}

std::string comparison(std::string_view label) {
  return R"({"comparison": {"prompt_conversation": [{"role":"user","content":"Q"}],)"
         R"( "completion_A": [{"role":"assistant","content":"a"}],)"
         R"( "completion_B": [{"role":"assistant","content":"b"}]}, "label": )" +
         std::string(label) + "}";
}

TEST(ParseDataRow, ReadsTheToolsOfPairs) {
  const auto pair =
      parse_data_row(R"({"prompt": "Q", "completion": "A", "tools": [{"name":"f"}]})");
  const auto preference =
      parse_data_row(R"({"prompt": "Q", "chosen": "a", "rejected": "b", "tools": [{"name":"f"}]})");

  EXPECT_THAT(std::get<ConversationRow>(pair.value()).conversation.tools, SizeIs(1));
  EXPECT_THAT(std::get<PreferenceRow>(preference.value()).tools, SizeIs(1));
  EXPECT_THAT(parse_data_row(R"({"prompt": "Q", "completion": "A", "tools": [{}]})"),
              is_refused("tools[0]: 'name' is missing"));
}

TEST(ParseDataRow, PassesOverMembersThatAreNull) {
  const auto row =
      parse_data_row(R"({"messages": null, "comparison": null, "chosen": null, "rejected": null,)"
                     R"( "prompt": "Q", "completion": "A", "tools": null})");

  ASSERT_THAT(row, IsOk());
  EXPECT_EQ(std::get<ConversationRow>(*row).prompt_size, 1U);
}

TEST(ParseDataRow, ReadsComparisonsOfTheCookbook) {
  const auto chosen = [](std::string_view label) {
    return std::get<PreferenceRow>(parse_data_row(comparison(label)).value()).chosen;
  };

  EXPECT_THAT(chosen(R"("A")"), ElementsAre(says("assistant", "a")));
  EXPECT_THAT(chosen(R"("B")"), ElementsAre(says("assistant", "b")));
  EXPECT_THAT(chosen(R"("Tie")"), ElementsAre(says("assistant", "b")));
}

TEST(ParseDataRow, ReadsPlainText) {
  EXPECT_THAT(parse_data_row(R"({"text": "Once", "source": "x"})"),
              IsOkAndHolds(DataRow(TextRow{"Once"})));
}

TEST(ParseDataRow, RefusesByName) {
  const auto refusals = std::to_array<std::pair<std::string, std::string_view>>({
      {"{}", "expected an object with 'messages'"},
      {"[1]", "expected an object with 'messages'"},
      {R"({"text": 7})", "expected an object with 'messages'"},
      {R"({"messages": "Hi"})", "messages: expected a list"},
      {R"({"messages": [{"role": "user", "contents": ""}]})", "messages[0]: a message has no mem"},
      {R"({"prompt": "Q"})", "expected an object with 'messages'"},
      {R"({"completion": "A"})", "'prompt' is missing"},
      {R"({"prompt": 7, "completion": "A"})", "prompt: expected a text or a list of messages"},
      {R"({"prompt": "Q", "completion": [{}]})", "completion: messages[0]: 'role'"},
      {R"({"chosen": "good", "rejected": "bad"})", "'prompt' is missing"},
      {R"({"prompt": "Q", "chosen": "good"})", "'rejected' is missing"},
      {comparison(R"("C")"), "'label'"},
      {comparison("null"), "'label'"},
      {R"({"comparison": {}, "label": "A"})", "'prompt_conversation' is missing"},
      {R"({"comparison": 7, "label": "A"})", "'prompt_conversation' is missing"},
  });

  for (const auto& [line, why] : refusals) {
    EXPECT_THAT(parse_data_row(line), is_refused(why)) << line;
  }
  EXPECT_FALSE(parse_data_row("{\"text\": \"a").ok());
  EXPECT_FALSE(parse_data_row("").ok());
  EXPECT_FALSE(parse_data_row("{\"text\": \"\xFF\"}").ok());
}

// ---- what becomes of it ----

struct Rendering {
  Renderer renderer(std::string_view name) const {
    return Renderer::create(name, tokenizer).value();
  }
  std::vector<Datum> data(std::string_view line,
                          std::string_view name,
                          const RenderOptions& options = {}) const {
    return to_data(parse_data_row(line).value(), renderer(name), options).value();
  }
  /// All tokens of a datum.
  std::string text(const Datum& datum) const {
    auto tokens = datum.model_input.to_tokens().value();
    const auto& targets = datum.loss_fn_inputs.at("target_tokens").ints();
    tokens.push_back(static_cast<std::int32_t>(targets[targets.size() - 1]));
    return tokenizer.decode(tokens);
  }
  /// What is trained.
  std::string trained(const Datum& datum) const {
    const auto& targets = datum.loss_fn_inputs.at("target_tokens").ints();
    const auto& weights = datum.loss_fn_inputs.at("weights").floats();
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (weights[i] > 0) tokens.push_back(static_cast<std::int32_t>(targets[i]));
    }
    return tokenizer.decode(tokens);
  }

  Tokenizer tokenizer = chat_tokenizer();
};

double sum_of(const Datum& datum) {
  const auto& weights = datum.loss_fn_inputs.at("weights").floats();
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

constexpr std::string_view kTwoTurns =
    R"({"messages": [{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
    R"({"role":"user","content":"c"},{"role":"assistant","content":"d"}]})";

TEST(ToData, IsOneDatumWhereEarlierTurnsStay) {
  const Rendering f;

  const auto data = f.data(kTwoTurns, "llama3");

  ASSERT_THAT(data, SizeIs(1));
  EXPECT_EQ(f.trained(data[0]), "b<|eot_id|>d<|eot_id|>");
  EXPECT_NEAR(sum_of(data[0]), 1, 1e-6);
}

TEST(ToData, IsADatumForEachTurnWhereEarlierOnesChange) {
  const Rendering f;

  const auto data = f.data(kTwoTurns, "qwen3");

  ASSERT_THAT(data, SizeIs(2));
  EXPECT_EQ(f.trained(data[0]), "<think>\n\n</think>\n\nb<|im_end|>");
  EXPECT_EQ(f.trained(data[1]), "<think>\n\n</think>\n\nd<|im_end|>");
  EXPECT_THAT(f.text(data[1]), HasSubstr("assistant\nb<|im_end|>"));
}

TEST(ToData, IsOneDatumIfToldSo) {
  const Rendering f;

  const auto data = f.data(kTwoTurns, "qwen3", {.splits = false});

  ASSERT_THAT(data, SizeIs(1));
  EXPECT_EQ(f.trained(data[0]), "b<|im_end|><think>\n\n</think>\n\nd<|im_end|>");
}

TEST(ToData, TrainsWhatItIsTold) {
  const Rendering f;

  const auto last = f.data(kTwoTurns,
                           "llama3",
                           {.datum = {.reduction = WeightReduction::none},
                            .train_on = TrainOnWhat::last_assistant_message});
  const auto everything = f.data(kTwoTurns, "qwen3", {.train_on = TrainOnWhat::all_messages});

  EXPECT_EQ(f.trained(last[0]), "d<|eot_id|>");
  EXPECT_EQ(sum_of(last[0]), 2);
  EXPECT_THAT(everything, SizeIs(1));
}

TEST(ToData, DeclaresTheToolsOfTheRow) {
  const Rendering f;
  constexpr std::string_view kLine =
      R"({"messages": [{"role":"system","content":"Be brief."},{"role":"user","content":"a"},)"
      R"({"role":"assistant","content":"b"}], "tools": [{"name":"f"}]})";

  const auto data = f.data(kLine, "qwen3");
  const auto refused = to_data(parse_data_row(kLine).value(), f.renderer("llama3"));

  ASSERT_THAT(data, SizeIs(1));
  EXPECT_THAT(f.text(data[0]), HasSubstr("<|im_start|>system\nBe brief.\n\n# Tools"));
  EXPECT_THAT(f.text(data[0]), HasSubstr(R"({"type": "function", "function": {"name": "f"}})"));
  EXPECT_THAT(refused, is_refused("tools"));
}

TEST(ToData, JoinsTheTextsOfASystemMessageWithTools) {
  const Rendering f;
  const auto line = [](std::string_view part) {
    return R"({"messages": [{"role":"system","content":[{"type":"text","text":"Be "},)" +
           std::string(part) +
           R"(]},{"role":"assistant","content":"b"}], "tools": [{"name":"f"}]})";
  };

  const auto data = f.data(line(R"({"type":"text","text":"brief."})"), "qwen3_instruct");
  const auto refused =
      to_data(parse_data_row(line(R"({"type":"thinking","thinking":"?"})")).value(),
              f.renderer("qwen3_instruct"));

  EXPECT_THAT(f.text(data[0]), HasSubstr("system\nBe brief.\n\n# Tools"));
  EXPECT_THAT(refused, is_refused("reasoning"));
}

TEST(ToData, DeclaresToolsWhereMessagesSayWhatIsTrained) {
  const Rendering f;
  const auto data =
      f.data(R"({"messages": [{"role":"user","content":"a","trainable":false},)"
             R"({"role":"assistant","content":"b","trainable":true}], "tools": [{"name":"f"}]})",
             "qwen3_instruct",
             {.train_on = TrainOnWhat::customized});

  EXPECT_EQ(f.trained(data[0]), "b<|im_end|>");
}

TEST(ToData, DeclaresTheToolsOfPairs) {
  const Rendering f;

  const auto pair =
      f.data(R"({"prompt": "Q", "completion": "A", "tools": [{"name":"f"}]})", "qwen3_instruct");
  const auto preference =
      f.data(R"({"prompt": "Q", "chosen": "a", "rejected": "b", "tools": [{"name":"f"}]})",
             "qwen3_instruct");

  EXPECT_THAT(f.text(pair[0]), HasSubstr(R"("function": {"name": "f"})"));
  EXPECT_THAT(f.text(preference[1]), HasSubstr(R"("function": {"name": "f"})"));
}

constexpr std::string_view kPromptWithAnswer =
    R"({"prompt": [{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
    R"({"role":"user","content":"c"}], "completion": )";

TEST(ToData, TrainsTheCompletionAndNotItsPrompt) {
  const Rendering f;
  const auto line = [](std::string_view completion) {
    return std::string(kPromptWithAnswer) + std::string(completion) + "}";
  };
  constexpr std::string_view kSteps =
      R"([{"role":"assistant","content":"d"},{"role":"tool","content":"e"},)"
      R"({"role":"assistant","content":"f"}])";
  constexpr std::string_view kTurns =
      R"([{"role":"assistant","content":"d"},{"role":"user","content":"e"},)"
      R"({"role":"assistant","content":"f"}])";

  EXPECT_EQ(f.trained(f.data(line(R"("d")"), "llama3")[0]), "d<|eot_id|>");
  EXPECT_EQ(f.trained(f.data(line(kSteps), "llama3")[0]), "d<|eot_id|>f<|eot_id|>");
  EXPECT_THAT(to_data(parse_data_row(line(kTurns)).value(), f.renderer("llama3")),
              is_refused("a completion of several turns"));
  EXPECT_EQ(f.trained(f.data(
                line(R"("d")"), "llama3", {.train_on = TrainOnWhat::all_assistant_messages})[0]),
            "b<|eot_id|>d<|eot_id|>");
}

TEST(ToData, RefusesRolesThatNobodyKnows) {
  const Rendering f;
  constexpr std::string_view kLine =
      R"({"messages": [{"role":"User","content":"a"},{"role":"assistant","content":"b"}]})";

  EXPECT_THAT(to_data(parse_data_row(kLine).value(), f.renderer("llama3")),
              is_refused("messages[0]: 'User' is no role that is known; expected one of system,"));
}

TEST(ToData, RefusesCallsThatWouldBeLeftOut) {
  const Rendering f;
  constexpr std::string_view kLine =
      R"({"messages": [{"role":"user","content":"a"},{"role":"assistant","content":"",)"
      R"("tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]})";
  const auto row = parse_data_row(kLine).value();

  EXPECT_THAT(to_data(row, f.renderer("llama3")), is_refused("messages[1] calls 'f'"));
  EXPECT_THAT(to_data(row, f.renderer("role_colon")), is_refused("messages[1] calls 'f'"));
  EXPECT_THAT(f.trained(f.data(kLine, "qwen3")[0]), HasSubstr(R"({"name": "f", "arguments": {}})"));
}

TEST(ToData, SaysWhichArgumentsAreNoJson) {
  const Rendering f;
  constexpr std::string_view kLine =
      R"({"messages": [{"role":"user","content":"a"},{"role":"assistant","content":"",)"
      R"("tool_calls":[{"function":{"name":"f","arguments":"not json"}}]}]})";

  const auto refused = to_data(parse_data_row(kLine).value(), f.renderer("qwen3"));

  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().to_string(), HasSubstr("the arguments of 'f', \"not json\""));
}

TEST(ToData, SplitsWhatSaysItselfWhatIsTrained) {
  const Rendering f;
  const auto line = [](std::string_view user) {
    return R"({"messages": [{"role":"user","content":"a","trainable":)" + std::string(user) +
           R"(},{"role":"assistant","content":"b","trainable":true},)"
           R"({"role":"user","content":"c","trainable":false},)"
           R"({"role":"assistant","content":"d","trainable":true},)"
           R"({"role":"user","content":"e","trainable":false},)"
           R"({"role":"assistant","content":"f","trainable":false}]})";
  };
  const RenderOptions options = {.train_on = TrainOnWhat::customized};

  const auto data = f.data(line("false"), "qwen3", options);

  ASSERT_THAT(data, SizeIs(2));
  EXPECT_EQ(f.trained(data[0]), "<think>\n\n</think>\n\nb<|im_end|>");
  EXPECT_EQ(f.trained(data[1]), "<think>\n\n</think>\n\nd<|im_end|>");
  EXPECT_THAT(to_data(parse_data_row(line("true")).value(), f.renderer("qwen3"), options),
              is_refused("messages[0] of 'user' is trainable"));
}

TEST(ToData, GivesTheChosenAndThenTheRejectedOneUnreduced) {
  const Rendering f;

  const auto data =
      f.data(R"({"prompt": "Q", "chosen": "good", "rejected": "bad"})", "qwen3_instruct");

  ASSERT_THAT(data, SizeIs(2));
  EXPECT_EQ(f.trained(data[0]), "good<|im_end|>");
  EXPECT_EQ(f.trained(data[1]), "bad<|im_end|>");
  EXPECT_EQ(sum_of(data[0]), 5);
}

TEST(ToData, TrainsAllOfAPlainTextButItsFirstToken) {
  const Rendering f;

  const auto data = f.data(R"({"text": "<|im_end|>ab"})", "qwen3");

  ASSERT_THAT(data, SizeIs(1));
  EXPECT_EQ(f.text(data[0]), "<|im_end|>ab");
  EXPECT_EQ(data[0].model_input.to_tokens().value().size(), 11U) << "no control token";
  EXPECT_NEAR(sum_of(data[0]), 1, 1e-6);
}

TEST(ToData, CutsWhatIsTooLong) {
  const Rendering f;

  const auto data = f.data(R"({"text": "abcdef"})", "qwen3", {.datum = {.max_length = 4}});

  EXPECT_EQ(f.text(data[0]), "abcd");
}

TEST(ToData, IsNothingWhereNobodyAnswers) {
  const Rendering f;
  constexpr std::string_view kLine = R"({"messages": [{"role":"user","content":"a"}]})";

  EXPECT_THAT(f.data(kLine, "qwen3"), IsEmpty());
  EXPECT_THAT(f.data(kLine, "llama3"), SizeIs(1));
}

}  // namespace
}  // namespace tinker::render::data_row_test
