#include "render/content.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <variant>

#include "base/strings.h"

namespace tinker::render {

Result<std::string> plain_text(const Message& message) {
  if (const auto* text = std::get_if<std::string>(&message.content)) return *text;
  const auto& parts = std::get<std::vector<ContentPart>>(message.content);
  if (parts.size() == 1) {
    if (const auto* text = std::get_if<TextPart>(&parts.front())) return text->text;
    return refused_part(message, parts.front());
  }
  return Error::invalid_argument(base::concat("expected one text as the content of a message of '",
                                              message.role,
                                              "', found ",
                                              parts.size(),
                                              " parts"));
}

bool has_thinking(const Content& content) {
  if (const auto* text = std::get_if<std::string>(&content)) {
    return text->find("<think>") != std::string::npos;
  }
  return std::ranges::any_of(
      std::get<std::vector<ContentPart>>(content),
      [](const ContentPart& part) { return std::holds_alternative<ThinkingPart>(part); });
}

std::vector<ContentPart> without_thinking(const std::vector<ContentPart>& parts) {
  std::vector<ContentPart> out;
  std::ranges::copy_if(parts, std::back_inserter(out), [](const ContentPart& part) {
    return !std::holds_alternative<ThinkingPart>(part);
  });
  return out;
}

std::string_view described(const ContentPart& part) {
  constexpr std::array<std::string_view, 3> kNames = {"a text", "reasoning", "an image"};
  return kNames.at(part.index());
}

Error refused_part(const Message& message, const ContentPart& part) {
  return Error::invalid_argument(base::concat(
      "a message of '", message.role, "' cannot have ", described(part), " in this format"));
}

Error refused_role(const Message& message) {
  return Error::invalid_argument(
      base::concat("this format has no place for a message of '", message.role, "' here"));
}

std::string joined_roles() {
  std::string out;
  for (const auto role : kRoles) out += base::concat(out.empty() ? "" : ", ", role);
  return out;
}

Result<std::size_t> positions_of(const ModelInputChunk& chunk) {
  constexpr std::int64_t kMost = 1 << 24;
  if (const auto* text = std::get_if<EncodedTextChunk>(&chunk)) return text->tokens.size();
  TINKER_TRY(const auto length, ModelInput{.chunks = {chunk}}.length());
  if (length >= 0 && length <= kMost) return static_cast<std::size_t>(length);
  return Error::invalid_argument(
      base::concat("expected an image or sound of 0 to ", kMost, " tokens, found ", length));
}

const std::vector<ToolCall>& calls_of(const Message& message) {
  static const std::vector<ToolCall> none;
  return message.tool_calls ? *message.tool_calls : none;
}

}  // namespace tinker::render
