#include "render/qwen3_vl.h"

#include <algorithm>
#include <memory>

#include "base/strings.h"
#include "render/content.h"
#include "render/formats.h"

namespace tinker::render {

namespace {

class Qwen3VlFormat final : public QwenVlFormat {
 public:
  Qwen3VlFormat(Tokenizer tokenizer, Qwen3Vl variant)
      : QwenVlFormat(std::move(tokenizer)), variant_(variant) {}

  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override {
    return parse_qwen3(tokenizer(), tokens, token(kImEnd), variant_ == Qwen3Vl::thinking);
  }
  [[nodiscard]] ResponseSyntax response_syntax() const override {
    return qwen3_syntax(variant_ == Qwen3Vl::thinking);
  }

 private:
  Qwen3Vl variant_;
};

}  // namespace

void QwenVlFormat::add_text(Content& out, std::string_view text) {
  auto* const last = out.empty() ? nullptr : std::get_if<std::string>(&out.back());
  if (last) {
    *last += text;
  } else {
    out.emplace_back(std::string(text));
  }
}

Result<Message> QwenVlFormat::trimmed(const Message& message, const MessagePlace& /*place*/) const {
  return message;
}

std::string QwenVlFormat::header(const Message& message, const MessagePlace& place) const {
  return im_header(place, im_role(message));
}

bool QwenVlFormat::drops_thinking(const Message& message, const MessagePlace& place) const {
  return message.role == "assistant" && !place.is_last;
}

std::string QwenVlFormat::thinking_text(std::string_view thinking) const {
  return base::concat(kThink, thinking, kThinkEnd);
}

Result<std::string> QwenVlFormat::calls_text(const Message& message) const {
  TINKER_TRY(const auto calls, json_calls(*message.tool_calls));
  return "\n" + calls;
}

void QwenVlFormat::add_image(Content& out,
                             const ImageChunk& image,
                             std::size_t /*number*/,
                             std::size_t /*count*/) const {
  add_text(out, "<|vision_start|>");
  out.emplace_back(image);
  add_text(out, "<|vision_end|>");
}

std::string QwenVlFormat::end(const Message& /*message*/, const MessagePlace& /*place*/) const {
  return std::string(kImEnd);
}

std::pair<std::string, std::string> QwenVlFormat::split_header(
    std::string header, const Message& /*message*/, const MessagePlace& /*place*/) const {
  return {std::move(header), std::string()};
}

Result<QwenVlFormat::Content> QwenVlFormat::content_of(const Message& message,
                                                       const MessagePlace& place) const {
  Content out;
  if (const auto* text = std::get_if<std::string>(&message.content)) {
    add_text(out, *text);
    return out;
  }
  const auto& parts = std::get<std::vector<ContentPart>>(message.content);
  const auto images = std::ranges::count_if(
      parts, [](const ContentPart& part) { return std::holds_alternative<ImagePart>(part); });
  std::size_t number = 0;
  for (const auto& part : parts) {
    if (const auto* thinking = std::get_if<ThinkingPart>(&part)) {
      if (!drops_thinking(message, place)) add_text(out, thinking_text(thinking->thinking));
    } else if (const auto* text = std::get_if<TextPart>(&part)) {
      add_text(out, text->text);
    } else {
      add_image(out, std::get<ImagePart>(part).image, ++number, static_cast<std::size_t>(images));
    }
  }
  return out;
}

std::vector<ModelInputChunk> QwenVlFormat::encoded(const Content& content) const {
  std::vector<ModelInputChunk> out;
  for (const auto& piece : content) {
    if (const auto* text = std::get_if<std::string>(&piece)) {
      out.emplace_back(encode(*text));
    } else {
      out.emplace_back(std::get<ImageChunk>(piece));
    }
  }
  return out;
}

Result<RenderedMessage> QwenVlFormat::render(const Message& given,
                                             const MessagePlace& place) const {
  TINKER_TRY(const auto message, trimmed(given, place));
  Content content;
  if (message.role == "tool") add_text(content, "<tool_response>\n");
  TINKER_TRY(const auto inside, content_of(message, place));
  for (const auto& piece : inside) {
    if (const auto* text = std::get_if<std::string>(&piece)) {
      add_text(content, *text);
    } else {
      content.push_back(piece);
    }
  }
  if (message.role == "tool") add_text(content, tool_response_end());
  if (message.tool_calls) {
    TINKER_TRY(const auto calls, calls_text(message));
    add_text(content, calls);
  }
  add_text(content, end(message, place));
  const auto [head, rest] = split_header(header(message, place), message, place);
  RenderedMessage out = {.header = {encode(head)}};
  if (!rest.empty()) out.output.emplace_back(encode(rest));
  for (auto& chunk : encoded(content)) out.output.push_back(std::move(chunk));
  return out;
}

Result<std::vector<ModelInputChunk>> QwenVlFormat::suffix(const std::string& role,
                                                          const MessagePlace& place) const {
  if (suffix_end().empty()) return ChatFormat::suffix(role, place);
  return std::vector<ModelInputChunk>{encode(base::concat(im_header(place, role), suffix_end()))};
}

Result<ParsedResponse> QwenVlFormat::parse(std::span<const std::int32_t> tokens) const {
  return parse_qwen3(tokenizer(), tokens, token(kImEnd), true);
}

Result<std::vector<Message>> QwenVlFormat::declare_tools(std::span<const ToolSpec> tools,
                                                         std::string_view system_prompt) const {
  return qwen3_tools(tools, system_prompt);
}

Format make_qwen3_vl(Tokenizer tokenizer, Qwen3Vl variant) {
  TINKER_TRY(require_tokens(tokenizer, {kImStart, kImEnd}));
  TINKER_TRY(require_plain_tokens(tokenizer, {kThink, kThinkEnd}));
  return shared<Qwen3VlFormat>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
