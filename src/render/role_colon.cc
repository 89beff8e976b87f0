// For base models: "User: hi\n\nAssistant: hello\n\n". The model ends its message by writing the
// next "User:", so the last message of an example has that, too.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/formats.h"

namespace tinker::render {

namespace {

constexpr std::string_view kDelimiter = "\n\nUser:";

class RoleColon final : public ChatFormat {
 public:
  RoleColon(Tokenizer tokenizer, const RendererOptions& options)
      : ChatFormat(std::move(tokenizer)), eos_(options.eos_token) {}

  [[nodiscard]] Stop stop() const override {
    return std::vector<std::string>{std::string(kDelimiter)};
  }
  [[nodiscard]] bool has_extension_property() const override { return true; }
  [[nodiscard]] bool writes_tool_calls() const override { return false; }
  [[nodiscard]] std::vector<ModelInputChunk> begin() const override {
    return {EncodedTextChunk{tokenizer().encode("")}};  // the tokenizer's begin-of-sequence token
  }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& /*place*/) const override {
    TINKER_TRY(const auto text, plain_text(message));
    // Only the assistant is followed by "User:"; the cookbook writes this where it ends otherwise.
    const std::string_view after = message.role == "assistant" ? "User:" : "<UNUSED>";
    return RenderedMessage{
        .header = {encode(base::concat(jinja::capitalized(message.role), ":"))},
        .output = {encode(base::concat(" ", text, "\n\n"))},
        .stop_overlap = {encode(after)},
    };
  }

  [[nodiscard]] ResponseSyntax response_syntax() const override {
    ResponseSyntax out = {.skipped = " "};
    if (eos_) out.end_tokens = {*eos_};
    return out;
  }

  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override {
    const bool has_eos = eos_ && !tokens.empty() && tokens.back() == *eos_;
    if (has_eos) tokens = tokens.first(tokens.size() - 1);
    const std::string text = tokenizer().decode(tokens);
    const auto end = text.find(kDelimiter);
    std::string_view content = std::string_view(text).substr(0, end);
    if (content.starts_with(' ')) content.remove_prefix(1);
    if (content.ends_with("\n\n")) content.remove_suffix(2);
    const bool has_end = end != std::string::npos;
    const bool has_more = has_end && text.find(kDelimiter, end + 1) != std::string::npos;
    const auto termination = has_eos && !has_end                ? ParseTermination::eos
                             : has_end && !has_eos && !has_more ? ParseTermination::stop_sequence
                                                                : ParseTermination::malformed;
    return ParsedResponse{.message = {.role = "assistant", .content = std::string(content)},
                          .termination = termination};
  }

 private:
  std::optional<std::int32_t> eos_;
};

}  // namespace

Format make_role_colon(Tokenizer tokenizer, const RendererOptions& options) {
  return shared<RoleColon>(std::move(tokenizer), options);
}

}  // namespace tinker::render
