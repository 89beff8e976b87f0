#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tinker/result.h"
#include "tinker/types/json.h"
#include "tinker/types/model_input.h"

namespace tinker {

struct TextPart {
  std::string text = {};
  friend bool operator==(const TextPart&, const TextPart&) = default;
};

/// Reasoning of the model, which is not part of its answer.
struct ThinkingPart {
  std::string thinking = {};
  friend bool operator==(const ThinkingPart&, const ThinkingPart&) = default;
};

struct ImagePart {
  ImageChunk image = {};
  friend bool operator==(const ImagePart&, const ImagePart&) = default;
};

using ContentPart = std::variant<TextPart, ThinkingPart, ImagePart>;
/// A plain text, or parts in order. The two are not the same: some formats look for "<think>" in a
/// plain text and take parts as they are.
using Content = std::variant<std::string, std::vector<ContentPart>>;

/// A function that the model calls.
struct ToolCall {
  std::string name = {};
  std::string arguments = {};  ///< A JSON object as text.
  std::optional<std::string> id = {};
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

/// A call of which `Renderer::parse_response` could make nothing.
struct UnparsedToolCall {
  std::string raw_text = {};
  std::string error = {};
  friend bool operator==(const UnparsedToolCall&, const UnparsedToolCall&) = default;
};

/// One turn of a conversation.
///
///     Message{.role = "user", .content = "What is 2 + 2?"}
///
/// Thread-compatible.
struct Message {
  std::string role = {};  ///< "system", "user", "assistant", "tool", or what a format names.
  Content content = std::string();
  /// Absent and empty are not the same for every format.
  std::optional<std::vector<ToolCall>> tool_calls = {};
  std::vector<UnparsedToolCall> unparsed_tool_calls = {};  ///< Of answers; never rendered.
  std::optional<std::string> tool_call_id = {};            ///< Of a tool's result: whose.
  std::optional<std::string> name = {};                    ///< Of a tool's result: the function.
  std::optional<bool> trainable = {};                      ///< For `TrainOnWhat::customized`.

  /// The text of all text parts, one after the other.
  [[nodiscard]] std::string text() const;
  /// The text of all thinking parts.
  [[nodiscard]] std::string thinking() const;

  /// Reads one message in OpenAI's form or in the cookbook's. Members and parts that have no place
  /// in `Message` are refused by name. Roles are looked at where a conversation is trained.
  static Result<Message> from_json(const Json& json);

  friend bool operator==(const Message&, const Message&) = default;
};

/// A function that the model may call: {"name", "description", "parameters"}, the last one a JSON
/// schema. Other members are kept; some formats show them to the model.
///
/// Immutable.
class ToolSpec {
 public:
  /// OpenAI's {"type": "function", "function": {...}} or the function alone.
  static Result<ToolSpec> from_json(Json json);

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::string_view description() const;  ///< Empty if there is none.
  [[nodiscard]] const Json& parameters() const;        ///< An empty object if there are none.
  /// All members, in their order.
  [[nodiscard]] const Json& json() const noexcept { return json_; }

  friend bool operator==(const ToolSpec&, const ToolSpec&) = default;

 private:
  explicit ToolSpec(Json json) : json_(std::move(json)) {}
  Json json_;
};

/// The messages and tools of a JSON document: a list of messages, or an object with "messages" and,
/// if there are any, "tools".
struct Conversation {
  std::vector<Message> messages = {};
  std::vector<ToolSpec> tools = {};

  static Result<Conversation> parse(std::string_view text);
  static Result<Conversation> from_json(const Json& json);

  friend bool operator==(const Conversation&, const Conversation&) = default;
};

enum class ToolArguments { as_text, as_object };

/// A message in OpenAI's form: texts joined, reasoning as "reasoning_content".
Result<Json> to_openai_json(const Message& message, ToolArguments arguments);
/// A message in the cookbook's form, which has a place for all there is in a message.
Json to_json(const Message& message);

}  // namespace tinker
