#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "render/qwen.h"
#include "tinker/chat_format.h"

namespace tinker::render {

/// The format of Qwen3-VL, which later models of the family change in points: those are virtual.
/// The content of a message is encoded as one text, control tokens included; images stand between.
class QwenVlFormat : public ChatFormat {
 public:
  using ChatFormat::ChatFormat;

  [[nodiscard]] Stop stop() const override { return std::vector{token(kImEnd)}; }
  [[nodiscard]] Result<RenderedMessage> render(const Message& given,
                                               const MessagePlace& place) const override;
  [[nodiscard]] Result<std::vector<ModelInputChunk>> suffix(
      const std::string& role, const MessagePlace& place) const override;
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override;
  [[nodiscard]] ResponseSyntax response_syntax() const override { return qwen3_syntax(true); }
  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override;

 protected:
  using Content = std::vector<TextOrImage>;

  /// The content before anything else is done with it.
  [[nodiscard]] virtual Result<Message> trimmed(const Message& message,
                                                const MessagePlace& place) const;
  [[nodiscard]] virtual std::string header(const Message& message, const MessagePlace& place) const;
  /// What a prompt has behind the header.
  [[nodiscard]] virtual std::string_view suffix_end() const { return {}; }
  /// Whether the reasoning of this message is left out.
  [[nodiscard]] virtual bool drops_thinking(const Message& message,
                                            const MessagePlace& place) const;
  [[nodiscard]] virtual std::string thinking_text(std::string_view thinking) const;
  /// Calls with what separates them from the content.
  [[nodiscard]] virtual Result<std::string> calls_text(const Message& message) const;
  /// Marks around an image, the `number`th of `count` in its message.
  virtual void add_image(Content& out,
                         const ImageChunk& image,
                         std::size_t number,
                         std::size_t count) const;
  /// What ends a message.
  [[nodiscard]] virtual std::string end(const Message& message, const MessagePlace& place) const;
  [[nodiscard]] virtual std::string_view tool_response_end() const { return "\n</tool_response>"; }
  /// What the model learns of a header that begins as a prompt ends; nothing else does.
  [[nodiscard]] virtual std::pair<std::string, std::string> split_header(
      std::string header, const Message& message, const MessagePlace& place) const;

  /// Adds text behind the last text, or a new one behind an image.
  static void add_text(Content& out, std::string_view text);

 private:
  [[nodiscard]] Result<Content> content_of(const Message& message, const MessagePlace& place) const;
  [[nodiscard]] std::vector<ModelInputChunk> encoded(const Content& content) const;
};

}  // namespace tinker::render
