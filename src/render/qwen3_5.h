#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"
#include "render/qwen3_vl.h"

namespace tinker::render {

/// Tells the model how to write calls: for whoever lists tools in words of its own.
extern const std::string_view kXmlCallInstructions;

/// The format of Qwen3.5: prompts open the reasoning, or close it; calls are XML; results of tools
/// in a row share a message. Later models change points of it.
class Qwen35Format : public QwenVlFormat {
 public:
  /// What a prompt puts into the model's mouth: "<think>\n" or a closed block.
  Qwen35Format(Tokenizer tokenizer, std::string_view opening)
      : QwenVlFormat(std::move(tokenizer)), opening_(opening) {}

  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override;
  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override;
  [[nodiscard]] ToolArguments template_arguments() const override {
    return ToolArguments::as_object;
  }

 protected:
  [[nodiscard]] Result<Message> trimmed(const Message& message,
                                        const MessagePlace& place) const override;
  [[nodiscard]] std::string header(const Message& message,
                                   const MessagePlace& place) const override;
  [[nodiscard]] std::string_view suffix_end() const override { return opening_; }
  [[nodiscard]] std::string thinking_text(std::string_view thinking) const override;
  [[nodiscard]] Result<std::string> calls_text(const Message& message) const override;
  [[nodiscard]] std::string end(const Message& message, const MessagePlace& place) const override;
  [[nodiscard]] std::pair<std::string, std::string> split_header(
      std::string header, const Message& message, const MessagePlace& place) const override;

  /// What the header of the assistant says of reasoning that is not in the content.
  [[nodiscard]] virtual std::string header_end(const Message& message,
                                               const MessagePlace& place) const;
  /// The header of a result that follows another one.
  [[nodiscard]] virtual std::string_view next_result_header() const { return "\n"; }
  /// An argument of a call.
  [[nodiscard]] virtual Result<std::string> argument_text(const jinja::Value& value) const;
  /// What is between the content and the first call, and behind each call.
  struct CallSeams {
    std::string_view before = {};
    std::string_view between = "\n";
    std::string_view after = {};
  };
  [[nodiscard]] virtual CallSeams call_seams(const Message& message) const;

 private:
  std::string_view opening_;
};

/// Whether there is anything to see in a content.
bool has_visible_content(const Content& content);

}  // namespace tinker::render
