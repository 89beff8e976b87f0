#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/chat.h"
#include "tinker/result.h"
#include "tinker/tokenizer.h"
#include "tinker/types/model_input.h"
#include "tinker/types/sampling_params.h"

namespace tinker {

/// Which tokens of a conversation are trained on.
enum class TrainOnWhat {
  last_assistant_message,        ///< The very last message, if it is the assistant's.
  last_assistant_turn,           ///< All messages of the assistant after the last one of the user.
  all_assistant_messages,        ///< All messages of the assistant.
  all_messages,                  ///< All messages without their headers.
  all_tokens,                    ///< Headers, too.
  all_user_and_system_messages,  ///< What the model is given.
  customized,                    ///< Messages whose `trainable` is true; each must say.
};
/// As the cookbook spells it: "last_assistant_message".
std::string_view to_string(TrainOnWhat mode) noexcept;
Result<TrainOnWhat> parse_train_on_what(std::string_view text);

/// Why a response ended.
enum class ParseTermination {
  stop_sequence,
  eos,
  malformed,  ///< Its end is missing: cut off, most of the time.
};
std::string_view to_string(ParseTermination termination) noexcept;

/// What the model said.
struct ParsedResponse {
  Message message = {};
  ParseTermination termination = ParseTermination::stop_sequence;
  friend bool operator==(const ParsedResponse&, const ParsedResponse&) = default;
};

/// A conversation to train on: a weight for each position of `input`, 0 or 1.
struct SupervisedExample {
  ModelInput input = {};
  std::vector<float> weights = {};
  friend bool operator==(const SupervisedExample&, const SupervisedExample&) = default;
};

/// What a message becomes. Each chunk is tokenised on its own.
struct RenderedMessage {
  std::vector<ModelInputChunk> header = {};  ///< Who speaks.
  std::vector<ModelInputChunk> output = {};  ///< What the model itself would write.
  /// What the model writes at the end of a conversation and another message brings along
  /// otherwise. In no prompt.
  std::vector<ModelInputChunk> stop_overlap = {};
};

/// Messages as a format has prepared them.
struct PreparedMessages {
  std::vector<Message> messages = {};
  /// For formats that drop reasoning up to some message: the first one that keeps it.
  std::size_t keeps_thinking_from = 0;
};

/// Where in its conversation a message stands.
struct MessagePlace {
  std::size_t index = 0;
  bool is_last = false;
  const Message* previous = nullptr;
  const Message* next = nullptr;
  std::optional<std::size_t> last_user = {};  ///< The last message of the role "user".
  bool is_in_last_turn = false;
  std::size_t keeps_thinking_from = 0;
};

/// How the parts of a response are told apart while it comes.
struct ResponseSyntax {
  enum class State { text, thinking, tool_call, hidden };
  /// What ends one part and begins another one.
  struct Mark {
    std::string_view text = {};
    State from = State::text;
    State to = State::text;
    /// If not empty, the hidden text before the mark has this in it.
    std::string_view header = {};
  };

  State first = State::text;
  std::vector<Mark> marks = {};
  /// Only control tokens are marks, not text that looks like them.
  bool marks_are_tokens = false;
  /// Newlines around reasoning are the format's.
  bool trims_newlines = false;
  /// What a response may begin with that is no part of it.
  std::string_view skipped = {};
  /// What ends a response beside the tokens of `ChatFormat::stop`.
  std::vector<std::int32_t> end_tokens = {};
};

/// How one family of models writes conversations. Derive from it for a format of your own; users
/// hold it in a `Renderer`.
///
/// Implementations are immutable and thread-safe.
class ChatFormat {
 public:
  explicit ChatFormat(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  ChatFormat(const ChatFormat&) = delete;
  ChatFormat& operator=(const ChatFormat&) = delete;
  virtual ~ChatFormat() = default;

  [[nodiscard]] const Tokenizer& tokenizer() const noexcept { return tokenizer_; }

  // ---- what each format says ----
  [[nodiscard]] virtual Stop stop() const = 0;
  /// `place` tells what else there is in the conversation.
  [[nodiscard]] virtual Result<RenderedMessage> render(const Message& message,
                                                       const MessagePlace& place) const = 0;
  /// The message that `tokens`, sampled after a prompt, stand for. Fails only for what no model
  /// writes, such as two ends.
  [[nodiscard]] virtual Result<ParsedResponse> parse(
      std::span<const std::int32_t> tokens) const = 0;

  // ---- what some formats say ----
  /// Whether what is rendered for a conversation begins with what is rendered for its first
  /// messages, wherever it is cut.
  [[nodiscard]] virtual bool has_extension_property() const { return false; }
  /// Whether its prompts close the reasoning before it began.
  [[nodiscard]] virtual bool disables_thinking() const { return false; }
  /// Whether the calls of a message are part of what it becomes. Training refuses them otherwise.
  [[nodiscard]] virtual bool writes_tool_calls() const { return true; }
  /// Whether training data may have messages of the role. Rendering alone takes any role, as the
  /// official cookbook does. Default: "system", "developer", "user", "assistant", "tool",
  /// "ipython", "tool_declare".
  [[nodiscard]] virtual bool knows_role(std::string_view role) const;
  /// What every conversation begins with.
  [[nodiscard]] virtual std::vector<ModelInputChunk> begin() const { return {}; }
  /// Messages as they are rendered. Doing it twice changes nothing, unless `first_messages` is
  /// replaced, too.
  [[nodiscard]] virtual Result<PreparedMessages> prepare(std::vector<Message> messages) const;
  /// The first `count` messages of a prepared conversation, as if there were no others. Default:
  /// prepares them again.
  [[nodiscard]] virtual Result<PreparedMessages> first_messages(
      const PreparedMessages& conversation, std::size_t count) const;
  /// The first message of the last turn of the assistant. Default: the one after the last "user".
  [[nodiscard]] virtual std::size_t turn_start(std::span<const Message> messages) const;
  /// What the model is given so that it goes on as `role`. Default: the header of such a message
  /// without content. `place.previous` is the last message.
  [[nodiscard]] virtual Result<std::vector<ModelInputChunk>> suffix(
      const std::string& role, const MessagePlace& place) const;
  /// What follows the suffix: `prefill`, behind what the format itself puts into the model's mouth.
  [[nodiscard]] virtual std::string opening(const MessagePlace& place, std::string prefill) const;
  /// Messages at the head of a conversation that tell the model of its tools. Default: refuses.
  [[nodiscard]] virtual Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const;
  /// For `ResponseStream`. Default: all is text.
  [[nodiscard]] virtual ResponseSyntax response_syntax() const { return {}; }
  /// A message in the form that the model's own template takes.
  [[nodiscard]] virtual ToolArguments template_arguments() const { return ToolArguments::as_text; }

  // ---- the mechanics that all share; few formats replace them ----
  [[nodiscard]] virtual Result<ModelInput> prompt(const PreparedMessages& conversation,
                                                  const std::string& role,
                                                  const std::string& prefill) const;
  [[nodiscard]] virtual Result<SupervisedExample> supervised(const PreparedMessages& conversation,
                                                             TrainOnWhat mode) const;
  /// One example or, where earlier messages are written differently once others follow, several.
  [[nodiscard]] virtual Result<std::vector<SupervisedExample>> split(
      const PreparedMessages& conversation, TrainOnWhat mode) const;

 protected:
  /// Control tokens in the text become what they are.
  [[nodiscard]] EncodedTextChunk encode(std::string_view text) const;
  /// They stay the plain text that a user wrote.
  [[nodiscard]] EncodedTextChunk encode_plain(std::string_view text) const;
  /// The id of a control token, which the vocabulary must have: see `require_tokens`.
  [[nodiscard]] std::int32_t token(std::string_view content) const;

 private:
  Tokenizer tokenizer_;
};

}  // namespace tinker
