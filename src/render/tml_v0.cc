// Inkling, in frames: "<|message_user|><|content_text|>hi<|end_message|>". A frame has one part of
// a message, or one call; "<|content_model_end_sampling|>" ends what the model writes. The model
// writes its own headers, so a prompt ends with the last frame. Text is never searched for control
// tokens.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "render/content.h"
#include "render/formats.h"
#include "render/python_json.h"
#include "render/response.h"
#include "render/tml_v0_json.h"
#include "wire/json.h"
#include "wire/utf8.h"

namespace tinker::render {

namespace {

using base::concat;
using Tokens = std::vector<std::int32_t>;

constexpr std::string_view kEndMessage = "<|end_message|>";
constexpr std::string_view kEndSampling = "<|content_model_end_sampling|>";
constexpr std::string_view kModel = "<|message_model|>";
constexpr std::string_view kSystem = "<|message_system|>";
constexpr std::string_view kText = "<|content_text|>";
constexpr std::string_view kThinking = "<|content_thinking|>";
constexpr std::string_view kToolError = "<|content_tool_error|>";
constexpr std::string_view kDeclaration = "<|content_xml|>";
constexpr std::string_view kInvoke = "<|content_invoke_tool_json|>";
constexpr std::string_view kRawInvoke = "<|content_invoke_tool_text|>";

struct Author {
  std::string_view role;
  std::string_view token;
};
constexpr std::array kAuthors = {Author{.role = "system", .token = kSystem},
                                 Author{.role = "user", .token = "<|message_user|>"},
                                 Author{.role = "assistant", .token = kModel},
                                 Author{.role = "tool", .token = "<|message_tool|>"}};

/// "0.9": thousandths, then hundredths, each with halves to even, in the official arithmetic.
std::string effort_text(double effort) {
  const double thousandths = std::nearbyint(effort * 1000);
  return concat(std::nearbyint(thousandths / 1000 * 100) / 100);
}

bool is_declaration(const Message& message) {
  return message.role == "tool_declare";
}

bool is_preamble(const Message& message) {
  return message.role == "system" || is_declaration(message);
}

bool is_kind(std::string_view control_token) {
  return control_token.starts_with("<|content_");
}

/// A part of a response.
struct Frame {
  std::string role = "assistant";
  std::string name = {};
  std::string kind = {};
  std::string body = {};
};

struct Frames {
  std::vector<Frame> list = {};
  bool has_end = false;
};

std::optional<ToolCall> read_call(const Frame& frame) {
  const auto json = wire::decode_json<Json>(frame.body);
  const auto* const members = json.ok() ? json->get_if<Json::Object>() : nullptr;
  if (!members || members->size() != 2) return std::nullopt;
  const Json* const name = json->find("name");
  const Json* const arguments = json->find("args");
  if (!name || !arguments || !arguments->get_if<Json::Object>()) return std::nullopt;
  const auto* const text = name->get_if<std::string>();
  if (!text || text->empty() || (!frame.name.empty() && frame.name != *text)) return std::nullopt;
  auto dumped = dump_json(*arguments, kAsciiJson);
  if (!dumped.ok()) return std::nullopt;
  return ToolCall{.name = *text, .arguments = *std::move(dumped)};
}

/// The message of the last author; nothing if a frame makes no sense.
std::optional<Message> read_message(const std::vector<Frame>& frames) {
  Message out;
  std::vector<ContentPart> parts;
  std::size_t calls = 0;
  for (const auto& frame : frames) {
    if (frame.role != out.role || frame.role == "tool") {
      out = {.role = frame.role};
      parts.clear();
      if (frame.role == "tool" && !frame.name.empty()) out.name = frame.name;
    }
    if (frame.kind == kText || frame.kind == kToolError) {
      parts.emplace_back(TextPart{frame.body});
    } else if (frame.kind == kThinking) {
      parts.emplace_back(ThinkingPart{frame.body});
    } else if (frame.kind == kInvoke) {
      auto call = read_call(frame);
      if (!call) return std::nullopt;
      call->id = concat("functions.", call->name, ":", calls++);
      add_call(out, *std::move(call));
    } else if (frame.kind != kRawInvoke) {
      return std::nullopt;
    }
  }
  if (auto* const text = parts.size() == 1 ? std::get_if<TextPart>(&parts.front()) : nullptr) {
    out.content = std::move(text->text);
  } else {
    out.content = std::move(parts);
  }
  return out;
}

class TmlV0Format final : public ChatFormat {
 public:
  TmlV0Format(Tokenizer tokenizer, double effort)
      : ChatFormat(std::move(tokenizer)), effort_(effort_text(effort)) {}

  [[nodiscard]] Stop stop() const override { return std::vector{token(kEndSampling)}; }
  [[nodiscard]] bool has_extension_property() const override { return true; }

  [[nodiscard]] Result<RenderedMessage> render(const Message& message,
                                               const MessagePlace& /*place*/) const override {
    TINKER_TRY(auto tokens, frames_of(message));
    return RenderedMessage{.output = {EncodedTextChunk{std::move(tokens)}}};
  }
  [[nodiscard]] Result<ModelInput> prompt(const PreparedMessages& conversation,
                                          const std::string& role,
                                          const std::string& prefill) const override;
  [[nodiscard]] Result<SupervisedExample> supervised(const PreparedMessages& conversation,
                                                     TrainOnWhat mode) const override;
  [[nodiscard]] Result<std::vector<SupervisedExample>> split(const PreparedMessages& conversation,
                                                             TrainOnWhat mode) const override;
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override;
  [[nodiscard]] ResponseSyntax response_syntax() const override;
  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override;

 private:
  struct Head {
    std::string_view author = {};
    std::string_view name = {};
    std::string_view kind = kText;
  };
  void add_frame(Tokens& out, const Head& head, std::string_view body) const;
  [[nodiscard]] Result<Tokens> frames_of(const Message& message) const;
  [[nodiscard]] Result<void> add_content(Tokens& out,
                                         const Message& message,
                                         std::string_view author) const;
  /// The messages, with the effort behind the system messages at the head.
  [[nodiscard]] std::vector<Message> with_effort(std::vector<Message> messages) const;

  [[nodiscard]] std::string control_token(std::int32_t id) const;
  [[nodiscard]] std::optional<Frames> read_frames(std::span<const std::int32_t> tokens) const;
  [[nodiscard]] std::optional<std::string> body_of(std::span<const std::int32_t> tokens) const;

  std::string effort_;
};

void TmlV0Format::add_frame(Tokens& out, const Head& head, std::string_view body) const {
  const auto add = [&out](const Tokens& tokens) {
    out.insert(out.end(), tokens.begin(), tokens.end());
  };
  out.push_back(token(head.author));
  add(encode_plain(head.name).tokens);
  out.push_back(token(head.kind));
  add(encode_plain(body).tokens);
  out.push_back(token(kEndMessage));
}

Result<void> TmlV0Format::add_content(Tokens& out,
                                      const Message& message,
                                      std::string_view author) const {
  const bool has_calls = !calls_of(message).empty();
  const std::string name = message.role == "tool" ? message.name.value_or("") : "";
  const Head head = {.author = author, .name = name};
  const auto add_text = [&](std::string_view text) {
    if (!has_calls || !text.empty()) add_frame(out, head, text);
  };
  if (const auto* text = std::get_if<std::string>(&message.content)) {
    add_text(*text);
    return {};
  }
  for (const auto& part : std::get<std::vector<ContentPart>>(message.content)) {
    if (const auto* text = std::get_if<TextPart>(&part)) {
      add_text(text->text);
    } else if (const auto* thinking = std::get_if<ThinkingPart>(&part)) {
      add_frame(out, {.author = author, .name = name, .kind = kThinking}, thinking->thinking);
    } else {
      return refused_part(message, part);
    }
  }
  return {};
}

Result<Tokens> TmlV0Format::frames_of(const Message& message) const {
  Tokens out;
  if (is_declaration(message)) {
    TINKER_TRY(const auto text, plain_text(message));
    TINKER_TRY(const auto json, inkling_tools(text));
    add_frame(out, {.author = kSystem, .name = message.role, .kind = kDeclaration}, json);
    return out;
  }
  const auto* const author = std::ranges::find(kAuthors, message.role, &Author::role);
  if (author == kAuthors.end()) return refused_role(message);
  TINKER_TRY(add_content(out, message, author->token));
  const bool is_model = author->token == kModel;
  if (!is_model && !calls_of(message).empty()) {
    return Error::invalid_argument(
        concat("a message of '", message.role, "' cannot have tool calls in this format"));
  }
  for (const auto& call : calls_of(message)) {
    TINKER_TRY(const auto json, inkling_call(call.name, call.arguments));
    add_frame(out, {.author = kModel, .name = call.name, .kind = kInvoke}, json);
  }
  if (is_model && !out.empty()) out.push_back(token(kEndSampling));
  return out;
}

std::vector<Message> TmlV0Format::with_effort(std::vector<Message> messages) const {
  const auto first = std::ranges::find_if_not(messages, is_preamble);
  messages.insert(first, {.role = "system", .content = concat("Thinking effort level: ", effort_)});
  return messages;
}

Result<ModelInput> TmlV0Format::prompt(const PreparedMessages& conversation,
                                       const std::string& role,
                                       const std::string& prefill) const {
  if (role != "assistant" || !prefill.empty()) {
    return Error::invalid_argument(
        "this format begins messages of the assistant only, and none of them for it: the model "
        "writes its own headers");
  }
  Tokens tokens;
  for (const auto& message : with_effort(conversation.messages)) {
    TINKER_TRY(const auto frames, frames_of(message));
    tokens.insert(tokens.end(), frames.begin(), frames.end());
  }
  return ModelInput::from_tokens(std::move(tokens));
}

Result<SupervisedExample> TmlV0Format::supervised(const PreparedMessages& conversation,
                                                  TrainOnWhat mode) const {
  TINKER_TRY(auto examples, split(conversation, mode));
  if (!examples.empty()) return std::move(examples.front());
  return Error::invalid_argument("no message of the assistant is trained, so there is no example");
}

/// One example that ends with the last message that is trained, or none.
Result<std::vector<SupervisedExample>> TmlV0Format::split(const PreparedMessages& conversation,
                                                          TrainOnWhat mode) const {
  const auto messages = with_effort(conversation.messages);
  const auto last =
      std::ranges::find(messages.rbegin(), messages.rend(), "assistant", &Message::role);
  const auto is_trained = [&](const Message& message) {
    if (message.role != "assistant") return false;
    if (mode == TrainOnWhat::customized) return message.trainable.value_or(true);
    return mode == TrainOnWhat::all_assistant_messages || &message == &*last;
  };
  if (mode != TrainOnWhat::customized && mode != TrainOnWhat::all_assistant_messages &&
      mode != TrainOnWhat::last_assistant_message) {
    return Error::invalid_argument(
        concat("this format trains last_assistant_message, "
               "all_assistant_messages or customized, not ",
               to_string(mode)));
  }
  Tokens tokens;
  std::vector<float> weights;
  std::size_t end = 0;  // of what is trained
  for (const auto& message : messages) {
    TINKER_TRY(const auto frames, frames_of(message));
    tokens.insert(tokens.end(), frames.begin(), frames.end());
    weights.resize(tokens.size(), is_trained(message) ? 1.0F : 0.0F);
    if (is_trained(message) && !frames.empty()) end = tokens.size();
  }
  if (end == 0) return std::vector<SupervisedExample>();
  tokens.resize(end);
  weights.resize(end);
  return std::vector{SupervisedExample{.input = ModelInput::from_tokens(std::move(tokens)),
                                       .weights = std::move(weights)}};
}

/// The content of a control token; empty for all others.
std::string TmlV0Format::control_token(std::int32_t id) const {
  return tokenizer().is_special(id) ? tokenizer().id_to_token(id).value_or("") : std::string();
}

/// The text of tokens; nothing if it is none.
std::optional<std::string> TmlV0Format::body_of(std::span<const std::int32_t> tokens) const {
  std::string out;
  for (const auto id : tokens) {
    const auto bytes = tokenizer().id_to_bytes(id);
    if (!bytes) return std::nullopt;
    out += *bytes;
  }
  if (!wire::is_utf8(out)) return std::nullopt;
  return out;
}

/// Reads as the official parser does: what stands between frames is passed over, a header may be
/// missing, and a last frame without an end does not count. Nothing if a header has no end.
std::optional<Frames> TmlV0Format::read_frames(std::span<const std::int32_t> tokens) const {
  Frames out;
  std::size_t at = 0;
  while (at < tokens.size()) {
    Frame frame = {.kind = control_token(tokens[at++])};
    const auto* const author = std::ranges::find(kAuthors, frame.kind, &Author::token);
    if (author != kAuthors.end()) {
      frame.role = author->role;
      const std::size_t begin = at;
      while (at < tokens.size() && !tokenizer().is_special(tokens[at])) ++at;
      if (at == tokens.size()) return std::nullopt;
      frame.name = tokenizer().decode(tokens.subspan(begin, at - begin));
      frame.kind = control_token(tokens[at++]);
    } else if (frame.kind == kEndSampling && !out.list.empty()) {
      out.has_end = true;
      continue;
    } else if (!is_kind(frame.kind)) {
      continue;
    }
    const auto rest = tokens.subspan(at);
    const auto end = std::ranges::find(rest, token(kEndMessage));
    if (end == rest.end()) break;
    const auto length = static_cast<std::size_t>(end - rest.begin());
    auto body = body_of(rest.first(length));
    if (!body) return std::nullopt;
    frame.body = *std::move(body);
    out.list.push_back(std::move(frame));
    at += length + 1;
  }
  return out;
}

ResponseSyntax TmlV0Format::response_syntax() const {
  using State = ResponseSyntax::State;
  return {.first = State::hidden,
          .marks = {{.text = kText, .from = State::hidden, .to = State::text},
                    {.text = kToolError, .from = State::hidden, .to = State::text},
                    {.text = kThinking, .from = State::hidden, .to = State::thinking},
                    {.text = kInvoke, .from = State::hidden, .to = State::tool_call},
                    {.text = kEndMessage, .from = State::text, .to = State::hidden},
                    {.text = kEndMessage, .from = State::thinking, .to = State::hidden},
                    {.text = kEndMessage, .from = State::tool_call, .to = State::hidden}},
          .marks_are_tokens = true};
}

Result<ParsedResponse> TmlV0Format::parse(std::span<const std::int32_t> tokens) const {
  const auto frames = read_frames(tokens);
  auto message = frames && !frames->list.empty() ? read_message(frames->list) : std::nullopt;
  if (!message) {
    return EndedText{.text = tokenizer().decode(tokens), .termination = ParseTermination::malformed}
        .as_is();
  }
  if (std::ranges::find(frames->list, kRawInvoke, &Frame::kind) != frames->list.end()) {
    return Error::invalid_argument(
        "a response calls a tool with a text instead of arguments, for which messages have no "
        "place");
  }
  return ParsedResponse{.message = *std::move(message),
                        .termination = frames->has_end ? ParseTermination::stop_sequence
                                                       : ParseTermination::malformed};
}

Result<std::vector<Message>> TmlV0Format::declare_tools(std::span<const ToolSpec> tools,
                                                        std::string_view system_prompt) const {
  std::vector<Message> out;
  if (!system_prompt.empty()) {
    out.push_back({.role = "system", .content = std::string(system_prompt)});
  }
  if (tools.empty()) return out;
  Json::Array list;
  for (const auto& tool : tools) {
    list.emplace_back(Json::Object{{"type", "function"},
                                   {"function",
                                    Json::Object{{"name", tool.name()},
                                                 {"description", tool.description()},
                                                 {"parameters", tool.parameters()}}}});
  }
  TINKER_TRY(auto json,
             dump_json(Json(std::move(list)),
                       {.is_ascii = true, .item_separator = ",", .key_separator = ":"}));
  out.push_back({.role = "tool_declare", .content = std::move(json)});
  return out;
}

}  // namespace

Format make_tml_v0(Tokenizer tokenizer, const RendererOptions& options) {
  TINKER_TRY(require_tokens(
      tokenizer, {kEndMessage, kEndSampling, kText, kThinking, kToolError, kDeclaration, kInvoke}));
  for (const auto& author : kAuthors) TINKER_TRY(require_tokens(tokenizer, {author.token}));
  const bool is_effort = options.effort >= 0 && options.effort < 1;  // NaN is none
  if (!is_effort) {
    return Error::invalid_argument(
        concat("expected an effort from 0 to below 1, found ", options.effort));
  }
  return shared<TmlV0Format>(std::move(tokenizer), options.effort);
}

}  // namespace tinker::render
