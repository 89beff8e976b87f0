// Qwen3.8: as Qwen3.5, with the reasoning of all messages kept, and an effort that is told in the
// system message.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/python_json.h"
#include "render/qwen3_5.h"

namespace tinker::render {

namespace {

/// What the system message begins with; empty for none.
std::string_view effort_of(Qwen38 variant) {
  switch (variant) {
    case Qwen38::xhigh:
      return "Reasoning effort is set to xhigh. Please think carefully through the task, validate "
             "key assumptions, consider plausible alternatives, and prioritize correctness, "
             "consistency, and clarity in the final answer.";
    case Qwen38::low:
      return "Reasoning effort is set to low. Keep your thinking brief and focused, moving "
             "directly to the conclusion without unnecessary elaboration.";
    default: return {};
  }
}

class Qwen38Format final : public Qwen35Format {
 public:
  Qwen38Format(Tokenizer tokenizer, Qwen38 variant)
      : Qwen35Format(std::move(tokenizer),
                     variant == Qwen38::no_thinking ? kEmptyThinking : "<think>\n"),
        variant_(variant),
        effort_(effort_of(variant)) {}

  [[nodiscard]] bool disables_thinking() const override { return variant_ == Qwen38::no_thinking; }

  [[nodiscard]] Result<PreparedMessages> prepare(std::vector<Message> messages) const override {
    if (!messages.empty() && messages.front().role == "system") {
      prepare_system(messages.front());
      const auto* text = std::get_if<std::string>(&messages.front().content);
      if (text && text->empty()) messages.erase(messages.begin());
    } else if (!effort_.empty()) {
      const bool says = std::ranges::any_of(
          messages, [](const Message& message) { return message.trainable.has_value(); });
      Message system = {.role = "system", .content = std::string(effort_)};
      if (says) system.trainable = false;
      messages.insert(messages.begin(), std::move(system));
    }
    return PreparedMessages{.messages = std::move(messages)};
  }

 protected:
  [[nodiscard]] bool drops_thinking(const Message& /*message*/,
                                    const MessagePlace& /*place*/) const override {
    return false;
  }
  [[nodiscard]] std::string header_end(const Message& message,
                                       const MessagePlace& /*place*/) const override {
    const bool is_list = std::holds_alternative<std::vector<ContentPart>>(message.content);
    const bool has_reasoning = is_list && has_thinking(message.content);
    return has_reasoning ? std::string() : std::string(kEmptyThinking);
  }
  [[nodiscard]] Result<std::string> argument_text(const jinja::Value& value) const override {
    if (value.is_string()) return value.text();
    return dump_json(value, kAsciiJson);
  }

 private:
  void prepare_system(Message& message) const {
    auto* parts = std::get_if<std::vector<ContentPart>>(&message.content);
    const bool has_only_text =
        parts == nullptr || std::ranges::all_of(*parts, [](const ContentPart& part) {
          return std::holds_alternative<TextPart>(part);
        });
    if (!has_only_text) {
      const auto* first = std::get_if<TextPart>(&parts->front());
      if (effort_.empty() || (first && first->text.starts_with(effort_))) return;
      parts->insert(parts->begin(), TextPart{base::concat(effort_, "\n\n")});
      return;
    }
    std::string text(jinja::trim(message.text()));
    const bool has_effort = text == effort_ || text.starts_with(base::concat(effort_, "\n\n"));
    if (!effort_.empty() && !has_effort) {
      text = text.empty() ? std::string(effort_) : base::concat(effort_, "\n\n", text);
    }
    message.content = std::move(text);
  }

  Qwen38 variant_;
  std::string_view effort_;
};

}  // namespace

Format make_qwen3_8(Tokenizer tokenizer, Qwen38 variant) {
  TINKER_TRY(require_tokens(tokenizer, {kImStart, kImEnd, kThinkEnd}));
  return shared<Qwen38Format>(std::move(tokenizer), variant);
}

}  // namespace tinker::render
