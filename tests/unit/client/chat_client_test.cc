#include "tinker/chat_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/chat_tokenizer.h"
#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::chat_client_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::chat_tokenizer;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

struct Chat : ClientFixture {
  void answer(std::string_view text) {
    const auto tokens = tokenizer.encode(text, {.parse_special = true});
    const SampleResponse response = {
        .sequences = {{.stop_reason = StopReason::stop, .tokens = tokens}}};
    results["Sample"] = protobuf(wire::encode_proto(response).value());
  }
  [[nodiscard]] SampleRequest sent() const {
    return wire::decode_json<SampleRequest>(bodies("/asample").at(0)).value();
  }

  Tokenizer tokenizer = chat_tokenizer();
  Renderer renderer = Renderer::create("qwen3", tokenizer).value();
  std::vector<Message> messages = {{.role = "user", .content = "Hi"}};
  ServiceClient service = connect();
  SamplingClient sampler = service.create_sampling_client({.base_model = "llama"}).get().value();
};

TEST(Chat, BringsTheNextMessage) {
  Chat f;
  f.answer("<think>\nHm.\n</think>\n\nHello!<|im_end|>");

  const auto reply = f.sampler.chat(f.renderer, f.messages, {.max_tokens = 50}).get();

  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(reply->message().role, "assistant");
  EXPECT_EQ(reply->message().text(), "Hello!");
  EXPECT_EQ(reply->message().thinking(), "Hm.");
  EXPECT_EQ(reply->response.termination, ParseTermination::stop_sequence);
  EXPECT_EQ(reply->sequence.sequence_id, "q-1");
  EXPECT_EQ(f.tokenizer.decode(reply->sequence.tokens),
            "<think>\nHm.\n</think>\n\nHello!<|im_end|>");
}

TEST(Chat, AsksAsTheRendererSays) {
  Chat f;
  f.answer("Hello!<|im_end|>");

  const auto reply = f.sampler.chat(f.renderer, f.messages, {.max_tokens = 50}).get();

  ASSERT_THAT(reply, IsOk());
  const auto request = f.sent();
  EXPECT_EQ(f.tokenizer.decode(request.prompt.to_tokens().value()),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(request.sampling_params.stop, f.renderer.stop());
  EXPECT_EQ(request.sampling_params.max_tokens, 50);
  EXPECT_EQ(request.num_samples, 1);
}

TEST(Chat, StopsWhereTheCallerSays) {
  Chat f;
  f.answer("One");

  const auto reply = f.sampler.chat(f.renderer, f.messages, {.stop = Stop("\n")}).get();

  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(f.sent().sampling_params.stop, Stop("\n"));
  EXPECT_EQ(reply->message().text(), "One");
  EXPECT_EQ(reply->response.termination, ParseTermination::malformed);
}

TEST(Chat, FailsForConversationsThatCannotBeRendered) {
  Chat f;
  f.messages.push_back({.role = "assistant",
                        .tool_calls = std::vector{ToolCall{.name = "f", .arguments = "no JSON"}}});

  const auto reply = f.sampler.chat(f.renderer, f.messages, {}).get();

  EXPECT_THAT(reply, IsError(ErrorCode::invalid_argument, HasSubstr("Invalid JSON")));
  EXPECT_THAT(f.bodies("/asample"), IsEmpty());
}

TEST(Chat, FailsForAnswersThatNoModelWrites) {
  Chat f;
  f.answer("a<|im_end|>b<|im_end|>");

  const auto reply = f.sampler.chat(f.renderer, f.messages, {}).get();

  EXPECT_THAT(reply, IsError(ErrorCode::invalid_argument, HasSubstr("ends once")));
}

}  // namespace
}  // namespace tinker::client::chat_client_test
