// Llama 3: "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>". Without the date and the
// trimming of the template that the models ship, as the cookbook has it.
#include <utility>

#include "base/strings.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/response.h"

namespace tinker::render {

namespace {

constexpr std::string_view kEnd = "<|eot_id|>";

class Llama3 final : public ChatFormat {
 public:
  using ChatFormat::ChatFormat;

  [[nodiscard]] Stop stop() const override { return std::vector{token(kEnd)}; }
  [[nodiscard]] bool has_extension_property() const override { return true; }
  [[nodiscard]] bool writes_tool_calls() const override { return false; }
  [[nodiscard]] std::vector<ModelInputChunk> begin() const override {
    return {encode("<|begin_of_text|>")};
  }
  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& /*place*/) const override {
    TINKER_TRY(const auto text, plain_text(message));
    const auto header = base::concat("<|start_header_id|>", message.role, "<|end_header_id|>\n\n");
    return RenderedMessage{.header = {encode(header)},
                           .output = {encode(text + std::string(kEnd))}};
  }
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override {
    TINKER_TRY(const auto ended, text_before(tokenizer(), tokens, token(kEnd)));
    return ended.as_is();
  }
};

}  // namespace

Format make_llama3(Tokenizer tokenizer) {
  TINKER_TRY(require_tokens(
      tokenizer, {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", kEnd}));
  return shared<Llama3>(std::move(tokenizer));
}

}  // namespace tinker::render
