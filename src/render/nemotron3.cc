// Nemotron 3: as Qwen3.5, with a system message in every conversation, tools declared in XML, and
// an empty block of reasoning before each answer that shows none. Reasoning is left out before the
// last message of the user only. Nano and Super write it "<think>\nr\n</think>\n", Ultra and
// the 3.5 models, which also take images, "<think>\nr</think>".
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

using base::concat;

constexpr std::string_view kNoThinking = "<think></think>";
constexpr std::string_view kImageEnd = "</img>";

/// What the last message of the user ends with; empty for none.
std::string_view effort_of(Nemotron3 variant) {
  switch (variant) {
    case Nemotron3::low: return "\n\n{reasoning effort: low}";
    case Nemotron3::medium: return "\n\n{reasoning effort: efficient}";
    default: return {};
  }
}

bool is_historical(const MessagePlace& place) {
  return place.last_user && place.index < *place.last_user;
}

/// Whether the content is a list with a text that is not empty.
bool has_text_part(const Content& content) {
  const auto* parts = std::get_if<std::vector<ContentPart>>(&content);
  if (!parts) return false;
  return std::ranges::any_of(*parts, [](const ContentPart& part) {
    const auto* text = std::get_if<TextPart>(&part);
    return text && !text->text.empty();
  });
}

bool has_thinking_part(const Content& content) {
  return std::holds_alternative<std::vector<ContentPart>>(content) && has_thinking(content);
}

class Nemotron3Format final : public Qwen35Format {
 public:
  Nemotron3Format(Tokenizer tokenizer, Nemotron3 variant, bool is_ultra)
      : Qwen35Format(std::move(tokenizer),
                     variant == Nemotron3::no_thinking ? kNoThinking : "<think>\n"),
        variant_(variant),
        is_ultra_(is_ultra) {}

  [[nodiscard]] bool has_extension_property() const override { return keeps_thinking(); }
  [[nodiscard]] bool disables_thinking() const override {
    return variant_ == Nemotron3::no_thinking;
  }

  [[nodiscard]] Result<PreparedMessages> prepare(std::vector<Message> messages) const override {
    if (messages.empty() || messages.front().role != "system") {
      messages.insert(messages.begin(), Message{.role = "system"});
    }
    return PreparedMessages{.messages = std::move(messages)};
  }

  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override;

 protected:
  [[nodiscard]] Result<Message> trimmed(const Message& message,
                                        const MessagePlace& place) const override;
  [[nodiscard]] std::string header_end(const Message& message,
                                       const MessagePlace& place) const override;
  [[nodiscard]] bool drops_thinking(const Message& message,
                                    const MessagePlace& place) const override {
    return message.role == "assistant" && is_historical(place) && !keeps_thinking();
  }
  [[nodiscard]] std::string thinking_text(std::string_view thinking) const override {
    return concat("<think>\n", thinking, is_ultra_ ? "</think>" : "\n</think>\n");
  }
  void add_image(Content& out,
                 const ImageChunk& image,
                 std::size_t number,
                 std::size_t count) const override;
  [[nodiscard]] CallSeams call_seams(const Message& message) const override {
    const bool ends_line =
        !is_ultra_ && has_thinking_part(message.content) && !has_text_part(message.content);
    return {.before = ends_line ? "" : "\n", .between = "", .after = "\n"};
  }
  [[nodiscard]] std::string_view tool_response_end() const override {
    return "\n</tool_response>\n";
  }
  [[nodiscard]] std::string_view next_result_header() const override { return {}; }

 private:
  [[nodiscard]] bool keeps_thinking() const { return variant_ == Nemotron3::keeps_thinking; }

  // The lines of a tool's declaration.
  [[nodiscard]] Result<std::string> declaration(const ToolSpec& tool) const;
  [[nodiscard]] Result<std::string> parameter(std::string_view name,
                                              const jinja::Value& schema) const;
  /// "<name>…</name>" for each member whose name is not among `known`.
  [[nodiscard]] Result<std::string> other_members(
      const jinja::Dict& members, std::initializer_list<std::string_view> known) const;

  Nemotron3 variant_;
  bool is_ultra_;
};

Result<Message> Nemotron3Format::trimmed(const Message& message, const MessagePlace& place) const {
  Message out = message;
  auto* const text = std::get_if<std::string>(&out.content);
  auto* const parts = std::get_if<std::vector<ContentPart>>(&out.content);
  if (parts && !is_ultra_) {
    for (const auto& part : *parts) {
      if (std::holds_alternative<ImagePart>(part)) return refused_part(message, part);
    }
  }
  const auto effort = effort_of(variant_);
  if (!effort.empty() && message.role == "user" && place.index == place.last_user) {
    if (text) {
      *text += effort;
    } else if (is_ultra_) {
      parts->emplace_back(TextPart{std::string(effort)});
    } else {
      return Error::invalid_argument(
          "the last message of the user must be a plain text, to which this format adds the "
          "effort; found a list of parts");
    }
  }
  if (text) *text = std::string(jinja::trim(*text));
  return out;
}

std::string Nemotron3Format::header_end(const Message& message, const MessagePlace& place) const {
  if (!has_thinking(message.content)) return std::string(kNoThinking);
  if (!drops_thinking(message, place)) return {};
  // What Nano leaves of "</think>\nanswer".
  const bool has_newline =
      !is_ultra_ && has_text_part(message.content) && calls_of(message).empty();
  return concat(kNoThinking, has_newline ? "\n" : "");
}

/// An image begins a line, and bears its number where there are several.
void Nemotron3Format::add_image(Content& out,
                                const ImageChunk& image,
                                std::size_t number,
                                std::size_t count) const {
  auto* const last = out.empty() ? nullptr : std::get_if<std::string>(&out.back());
  std::string_view before = last ? std::string_view(*last) : std::string_view();
  if (number > 1) before.remove_prefix(kImageEnd.size());  // of the image before
  const std::string_view newline = before.empty() || before.ends_with('\n') ? "" : "\n";
  add_text(out, concat(newline, count > 1 ? concat("<image ", number, ">") : "", "<img>"));
  out.emplace_back(image);
  add_text(out, kImageEnd);
}

Result<std::vector<Message>> Nemotron3Format::declare_tools(std::span<const ToolSpec> tools,
                                                            std::string_view system_prompt) const {
  std::string text(system_prompt);
  if (!tools.empty()) {
    if (!text.empty()) text += "\n\n";
    text += "# Tools\n\nYou have access to the following functions:\n\n<tools>\n";
    for (const auto& tool : tools) {
      auto lines = declaration(tool);
      if (!lines.ok()) return std::move(lines).error().with_context(concat("tool ", tool.name()));
      text += *lines;
    }
    text += concat("</tools>\n\n", kXmlCallInstructions);
  }
  return std::vector<Message>{{.role = "system", .content = std::move(text)}};
}

Result<std::string> Nemotron3Format::declaration(const ToolSpec& tool) const {
  std::string out = concat("<function>\n<name>", tool.name(), "</name>\n");
  if (const auto description = jinja::trim(tool.description()); !description.empty()) {
    out += concat("<description>", description, "</description>\n");
  }
  out += "<parameters>\n";
  const auto schema = to_value(tool.parameters());
  if (const auto* properties = schema.dict().member("properties")) {
    if (!properties->is_dict()) {
      return Error::invalid_argument(
          concat("expected an object as 'properties', found ", jinja::described(*properties)));
    }
    for (const auto& [name, property] : properties->dict()) {
      TINKER_TRY(const auto lines, parameter(name.text(), property));
      out += lines;
    }
  }
  TINKER_TRY(const auto others, other_members(schema.dict(), {"type", "properties", "required"}));
  out += others;
  if (const auto* required = schema.dict().member("required")) {
    TINKER_TRY(const auto json, dump_json(*required, kAsciiJson));
    out += concat("<required>", json, "</required>\n");
  }
  out += "</parameters>\n";
  const auto members = to_value(tool.json());
  TINKER_TRY(const auto rest,
             other_members(members.dict(), {"type", "name", "description", "parameters"}));
  return concat(out, rest, "</function>\n");
}

Result<std::string> Nemotron3Format::parameter(std::string_view name,
                                               const jinja::Value& schema) const {
  if (!schema.is_dict()) {
    return Error::invalid_argument(concat(
        "expected an object as the parameter '", name, "', found ", jinja::described(schema)));
  }
  std::string out = concat("<parameter>\n<name>", name, "</name>\n");
  if (const auto* type = schema.dict().member("type")) {
    out += concat("<type>", jinja::to_text(*type), "</type>\n");
  }
  if (const auto* description = schema.dict().member("description")) {
    if (!description->is_string()) {
      return Error::invalid_argument(concat("expected a text as the description of '",
                                            name,
                                            "', found ",
                                            jinja::described(*description)));
    }
    out += concat("<description>", jinja::trim(description->text()), "</description>\n");
  }
  if (const auto* values = schema.dict().member("enum")) {
    TINKER_TRY(const auto json, dump_json(*values, kAsciiJson));
    out += concat("<enum>", json, "</enum>\n");
  }
  TINKER_TRY(const auto others,
             other_members(schema.dict(), {"name", "type", "description", "enum"}));
  return concat(out, others, "</parameter>\n");
}

Result<std::string> Nemotron3Format::other_members(
    const jinja::Dict& members, std::initializer_list<std::string_view> known) const {
  std::string out;
  for (const auto& [name, value] : members) {
    const std::string_view key = name.text();
    if (std::ranges::find(known, key) != known.end()) continue;
    TINKER_TRY(const auto text, argument_text(value));
    out += concat("<", key, ">", text, "</", key, ">\n");
  }
  return out;
}

}  // namespace

Format make_nemotron3(Tokenizer tokenizer, Nemotron3 variant, bool is_ultra) {
  TINKER_TRY(require_tokens(tokenizer, {kImStart, kImEnd, kThinkEnd}));
  return shared<Nemotron3Format>(std::move(tokenizer), variant, is_ultra);
}

}  // namespace tinker::render
