#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/chat_format.h"

namespace tinker::render {

/// A response up to its end.
struct EndedText {
  std::string text = {};
  ParseTermination termination = ParseTermination::stop_sequence;

  [[nodiscard]] bool is_clean() const { return termination != ParseTermination::malformed; }
  /// A message with this text as its content.
  [[nodiscard]] ParsedResponse as_is() const;
};
/// The text before the one token `end`; all of it, as malformed, where there is none. Fails where
/// there are more.
Result<EndedText> text_before(const Tokenizer& tokenizer,
                              std::span<const std::int32_t> tokens,
                              std::int32_t end);
/// `tokens`, behind `prefix` if that was in the prompt: it is not at their beginning, and `closer`
/// is among them.
std::vector<std::int32_t> with_prefix(std::span<const std::int32_t> tokens,
                                      std::span<const std::int32_t> prefix,
                                      std::int32_t closer);

/// The first part of `text`, from `from` on, that lies between two marks.
struct Block {
  std::size_t begin = 0;  ///< Of the opening mark.
  std::size_t end = 0;    ///< Behind the closing mark.
  std::string_view inside = {};
};
std::optional<Block> find_block(std::string_view text,
                                std::string_view open,
                                std::string_view close,
                                std::size_t from = 0);

/// How many bytes of `text` at its beginning are letters, digits, "_", or one of `marks`.
std::size_t word_size(std::string_view text, std::string_view marks = {});

using ParsedCall = std::variant<ToolCall, UnparsedToolCall>;
void add_call(Message& message, ParsedCall call);

/// {"name": …, "arguments": {…}}; `raw` is what an error quotes.
ParsedCall parse_json_call(std::string_view body, std::string_view raw);

/// Makes parts of "<think>…</think>" in a content that is plain text. Leaves a text without them
/// as it is.
void read_thinking(Message& message);
/// The same, and calls of "<tool_call>…</tool_call>".
void read_blocks(Message& message);
/// Adds an unparsed call for a block that was opened and not closed; yields whether there is one.
bool note_dangling(Message& message,
                   std::string_view text,
                   std::string_view open,
                   std::string_view close);
/// What an error quotes of a text.
std::string quoted(std::string_view text);

/// "<think>…</think>" and calls between two marks, in any order.
ResponseSyntax think_syntax(std::string_view call, std::string_view call_end);

/// Where there was reasoning, the newlines around it are the format's.
void unframe_thinking(Message& message);

}  // namespace tinker::render
