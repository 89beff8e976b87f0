// The format of a model's own chat template.
//
// A template renders whole conversations. What the model writes as message i is found by rendering
// twice: the messages before it with the prompt, and the messages up to it. The second text has to
// begin with the first; the rest of it, up to the token that ends a message, is trained. Where the
// text of a longer conversation has all these texts at its beginning, one example trains several
// messages; otherwise each message is an example of its own.
//
// A text is tokenised as a whole, as the libraries of the models do it. Where a token would reach
// across the end of a prompt, no sampler sees that token: then the pieces are tokenised one by one.
#include "render/template_format.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "base/relative_path.h"
#include "base/strings.h"
#include "jinja/template.h"
#include "jinja/utf8.h"
#include "render/content.h"
#include "render/python_json.h"
#include "render/qwen.h"
#include "render/response.h"
#include "render/template_values.h"
#include "render/train_on.h"

namespace tinker::render {

namespace {

using base::concat;

/// Messages that list the tools of a conversation, as JSON.
constexpr std::string_view kDeclareTools = "tool_declare";

/// A conversation as the template takes it.
struct TemplateInput {
  jinja::List messages = {};  // one for each message; none where it declares tools
  jinja::Value tools = {};
};

/// What the model writes as one message: a part of the text of the conversation up to it.
struct Turn {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string text = {};
};

bool begins_with(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& first) {
  return std::ranges::mismatch(tokens, first).in2 == first.end();
}

/// Where the word or mark begins of which byte `at` is a part.
std::size_t word_at(std::string_view text, std::ptrdiff_t at) {
  const auto before = text.substr(0, static_cast<std::size_t>(at)).find_last_of(" \n>");
  return before == std::string_view::npos ? 0 : before + 1;
}

Error refused_mode(TrainOnWhat mode) {
  return Error::invalid_argument(
      concat("a template does not tell the content of a message from its header, which the mode '",
             to_string(mode),
             "' needs; messages of the assistant and 'all_tokens' can be trained"));
}

class TemplateFormat final : public ChatFormat {
 public:
  TemplateFormat(Tokenizer tokenizer, jinja::Template source, TemplateOptions options)
      : ChatFormat(std::move(tokenizer)),
        template_(std::move(source)),
        options_(std::move(options)) {
    variables_.set("documents", jinja::Value());
    variables_.set("bos_token", options_.bos_token);
    variables_.set("eos_token", options_.eos_token);
    for (const auto& [name, value] : options_.variables) variables_.set(name, to_value(value));
  }

  /// Finds out what ends a message, and what the template has a place for.
  Result<void> look_at(std::string_view source);

  [[nodiscard]] Stop stop() const override { return stops_; }

  [[nodiscard]] Result<RenderedMessage> render(const Message& /*message*/,
                                               const MessagePlace& /*place*/) const override {
    return Error::invalid_argument("a template renders conversations, not messages alone");
  }
  [[nodiscard]] Result<ModelInput> prompt(const PreparedMessages& conversation,
                                          const std::string& role,
                                          const std::string& prefill) const override;
  [[nodiscard]] Result<SupervisedExample> supervised(const PreparedMessages& conversation,
                                                     TrainOnWhat mode) const override;
  [[nodiscard]] Result<std::vector<SupervisedExample>> split(const PreparedMessages& conversation,
                                                             TrainOnWhat mode) const override;
  [[nodiscard]] Result<ParsedResponse> parse(std::span<const std::int32_t> tokens) const override;
  [[nodiscard]] ResponseSyntax response_syntax() const override { return qwen3_syntax(true); }
  [[nodiscard]] Result<std::vector<Message>> declare_tools(
      std::span<const ToolSpec> tools, std::string_view system_prompt) const override;
  [[nodiscard]] ToolArguments template_arguments() const override { return options_.arguments; }

 private:
  Result<void> look_for_end();
  /// The control token that the text ends with.
  [[nodiscard]] std::optional<std::int32_t> last_control_token(std::string_view text) const;
  /// Where a message ends in what was written of it; nothing where no control token ends it.
  [[nodiscard]] std::optional<std::size_t> end_of(std::string_view written) const;

  [[nodiscard]] Result<TemplateInput> input_of(const std::vector<Message>& messages) const;
  /// The text of the first `count` messages.
  [[nodiscard]] Result<std::string> text_of(const TemplateInput& input,
                                            std::size_t count,
                                            bool has_prompt) const;
  [[nodiscard]] Result<Turn> turn_of(const TemplateInput& input,
                                     const std::vector<Message>& messages,
                                     std::size_t index) const;
  [[nodiscard]] SupervisedExample all_tokens(std::string_view text) const;
  /// The text as a whole, if its tokens begin with those of each prompt.
  [[nodiscard]] std::optional<SupervisedExample> in_one(std::string_view text,
                                                        std::span<const Turn> turns) const;
  [[nodiscard]] SupervisedExample in_pieces(std::string_view text,
                                            std::span<const Turn> turns) const;
  [[nodiscard]] SupervisedExample example(std::string_view text, std::span<const Turn> turns) const;

  jinja::Template template_;
  TemplateOptions options_;
  jinja::Dict variables_;
  std::vector<std::int32_t> stops_;
  std::string reasoning_ = "reasoning_content";
  bool has_tools_ = false;
  bool opens_thinking_ = false;  // in its prompts
};

Result<void> TemplateFormat::look_at(std::string_view source) {
  has_tools_ = source.find("tools") != std::string_view::npos;
  // Only templates like that of gpt-oss have another name for it.
  if (source.find(reasoning_) == std::string_view::npos) reasoning_ = "thinking";

  TINKER_TRY(look_for_end());
  if (!options_.eos_token.empty()) {
    TINKER_TRY(require_tokens(tokenizer(), {options_.eos_token}));
    const auto eos = token(options_.eos_token);
    if (std::ranges::find(stops_, eos) == stops_.end()) stops_.push_back(eos);
  }
  if (stops_.empty()) {
    return Error::invalid_argument(
        "the template ends messages with no control token, and no eos_token is known");
  }
  return {};
}

/// The end of a message is the control token that an answer has behind it, alone and with another
/// message behind, and that nothing else of the answer has.
Result<void> TemplateFormat::look_for_end() {
  constexpr std::string_view kAnswer = "Certainly";
  TINKER_TRY(const auto input,
             input_of({{.role = "user", .content = "Hello"},
                       {.role = "assistant", .content = std::string(kAnswer)},
                       {.role = "user", .content = "Go on"}}));
  const auto prompt = text_of(input, 1, true);
  const auto text = text_of(input, 2, false);
  // Without another end, what went wrong is all there is to say.
  if (!text.ok() && options_.eos_token.empty()) return text.error();
  const auto longer = text_of(input, 3, false);
  if (prompt.ok()) {
    const auto open = prompt->rfind(kThink);
    opens_thinking_ =
        open != std::string::npos && prompt->find(kThinkEnd, open) == std::string::npos;
  }
  const auto answer = text.ok() ? text->rfind(kAnswer) : std::string::npos;
  if (answer == std::string::npos) return {};  // it takes no such conversation
  const std::string_view own = *text;
  const auto tokens = encode(own.substr(answer)).tokens;
  auto end = last_control_token(own.substr(answer));
  if (longer.ok() && longer->size() > answer) {
    const auto others = encode(std::string_view(*longer).substr(answer)).tokens;
    const auto parting = std::ranges::mismatch(tokens, others).in1;
    for (auto token = tokens.begin(); token != parting; ++token) {
      if (tokenizer().is_special(*token)) end = *token;
    }
  }
  const bool goes_on = prompt.ok() && own.starts_with(*prompt);
  const auto written = goes_on ? encode(own.substr(prompt->size())).tokens : tokens;
  if (end && std::ranges::count(written, *end) == 1) stops_.push_back(*end);
  return {};
}

std::optional<std::int32_t> TemplateFormat::last_control_token(std::string_view text) const {
  const auto tokens = encode(jinja::trim_right(text)).tokens;
  if (tokens.empty() || !tokenizer().is_special(tokens.back())) return std::nullopt;
  return tokens.back();
}

std::optional<std::size_t> TemplateFormat::end_of(std::string_view written) const {
  for (const auto stop : stops_) {
    const auto mark = tokenizer().id_to_token(stop).value_or("");
    const auto at = written.rfind(mark);
    if (at != std::string_view::npos) return at + mark.size();
  }
  if (last_control_token(written)) return jinja::trim_right(written).size();
  return std::nullopt;
}

Result<TemplateInput> TemplateFormat::input_of(const std::vector<Message>& messages) const {
  TemplateInput out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool declares = messages[i].role == kDeclareTools;
    auto value = declares ? load_json(messages[i].text())
                          : message_value(messages[i], reasoning_, options_.arguments);
    if (value.ok() && declares && !value->is_sequence()) {
      value = Error::invalid_argument("expected tools as a list in JSON");
    }
    if (!value.ok()) return std::move(value).error().with_context(concat("messages[", i, "]"));
    auto& place = declares ? out.tools : out.messages.emplace_back();
    place = *std::move(value);
    if (declares) out.messages.emplace_back();
  }
  return out;
}

Result<std::string> TemplateFormat::text_of(const TemplateInput& input,
                                            std::size_t count,
                                            bool has_prompt) const {
  jinja::List messages;
  std::copy_if(input.messages.begin(),
               input.messages.begin() + static_cast<std::ptrdiff_t>(count),
               std::back_inserter(messages),
               [](const jinja::Value& message) { return !message.is_none(); });
  jinja::Dict variables = variables_;
  variables.set("messages", std::move(messages));
  variables.set("tools", input.tools);
  variables.set("add_generation_prompt", has_prompt);
  const auto now = options_.date ? std::chrono::sys_seconds(std::chrono::sys_days(*options_.date))
                                 : local_time();
  auto text = template_.render(variables, {.now = now});
  if (!text.ok()) {
    return std::move(text).error().with_context(concat("the template, for ", count, " messages"));
  }
  return text;
}

Result<Turn> TemplateFormat::turn_of(const TemplateInput& input,
                                     const std::vector<Message>& messages,
                                     std::size_t index) const {
  TINKER_TRY(const auto prompt, text_of(input, index, true));
  TINKER_TRY(auto text, text_of(input, index + 1, false));
  if (!text.starts_with(prompt)) {
    const auto at = word_at(prompt, std::ranges::mismatch(prompt, text).in1 - prompt.begin());
    return Error::invalid_argument(
        concat("messages[",
               index,
               "] does not go on where its prompt ends, so the template does not tell what of it "
               "the model writes: the prompt has ",
               base::quoted(std::string_view(prompt).substr(at)),
               " where the message has ",
               base::quoted(std::string_view(text).substr(at))));
  }
  const auto written = std::string_view(text).substr(prompt.size());
  const auto end = end_of(written);
  if (!end) {
    return Error::invalid_argument(
        concat("messages[",
               index,
               "] ends with no control token: a model that is trained on it would not stop"));
  }
  const auto thinking = messages[index].thinking();
  if (written.find(jinja::trim(thinking)) == std::string_view::npos) {
    return Error::invalid_argument(
        concat("messages[",
               index,
               "] has reasoning, which the template leaves out: it cannot be trained"));
  }
  for (const auto& call : calls_of(messages[index])) {
    if (written.find(call.name) != std::string_view::npos) continue;
    return Error::invalid_argument(
        concat("messages[",
               index,
               "] calls '",
               call.name,
               "', which the template leaves out: it cannot be trained"));
  }
  return Turn{.begin = prompt.size(), .end = prompt.size() + *end, .text = std::move(text)};
}

SupervisedExample TemplateFormat::all_tokens(std::string_view text) const {
  auto tokens = encode(text).tokens;
  std::vector<float> weights(tokens.size(), 1.0F);
  const auto& begin = options_.bos_token;
  if (!begin.empty() && !tokens.empty() && tokens.front() == tokenizer().token_to_id(begin)) {
    weights.front() = 0;
  }
  return {.input = ModelInput::from_tokens(std::move(tokens)), .weights = std::move(weights)};
}

std::optional<SupervisedExample> TemplateFormat::in_one(std::string_view text,
                                                        std::span<const Turn> turns) const {
  auto tokens = encode(text).tokens;
  std::vector<float> weights(tokens.size(), 0.0F);
  for (const auto& turn : turns) {
    const auto before = encode(text.substr(0, turn.begin)).tokens;
    const auto with = encode(text.substr(0, turn.end)).tokens;
    if (!begins_with(tokens, before) || !begins_with(tokens, with)) return std::nullopt;
    for (std::size_t i = before.size(); i < with.size(); ++i) weights[i] = 1.0F;
  }
  return SupervisedExample{.input = ModelInput::from_tokens(std::move(tokens)),
                           .weights = std::move(weights)};
}

SupervisedExample TemplateFormat::in_pieces(std::string_view text,
                                            std::span<const Turn> turns) const {
  std::vector<std::int32_t> tokens;
  std::vector<float> weights;
  const auto add = [&](std::size_t begin, std::size_t end, float weight) {
    const auto piece = encode(text.substr(begin, end - begin)).tokens;
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    weights.resize(tokens.size(), weight);
  };
  std::size_t at = 0;
  for (const auto& turn : turns) {
    add(at, turn.begin, 0);
    add(turn.begin, turn.end, 1);
    at = turn.end;
  }
  add(at, text.size(), 0);
  return {.input = ModelInput::from_tokens(std::move(tokens)), .weights = std::move(weights)};
}

SupervisedExample TemplateFormat::example(std::string_view text,
                                          std::span<const Turn> turns) const {
  auto out = in_one(text, turns);
  return out ? *std::move(out) : in_pieces(text, turns);
}

Result<ModelInput> TemplateFormat::prompt(const PreparedMessages& conversation,
                                          const std::string& role,
                                          const std::string& prefill) const {
  if (role != "assistant") {
    return Error::invalid_argument(
        concat("a template has prompts for the assistant alone, not for '", role, "'"));
  }
  TINKER_TRY(const auto input, input_of(conversation.messages));
  TINKER_TRY(const auto text, text_of(input, conversation.messages.size(), true));
  return ModelInput::from_tokens(encode(text + prefill).tokens);
}

Result<SupervisedExample> TemplateFormat::supervised(const PreparedMessages& conversation,
                                                     TrainOnWhat mode) const {
  const auto& messages = conversation.messages;
  TINKER_TRY(check_trainable(messages, mode));
  if (mode == TrainOnWhat::all_messages || mode == TrainOnWhat::all_user_and_system_messages) {
    return refused_mode(mode);
  }
  TINKER_TRY(const auto input, input_of(messages));
  TINKER_TRY(const auto text, text_of(input, messages.size(), false));
  if (mode == TrainOnWhat::all_tokens) return all_tokens(text);

  const std::span all(messages);
  const std::size_t start = turn_start(all.first(all.empty() ? 0 : all.size() - 1));
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!is_trained(messages, i, start, mode)) continue;
    if (messages[i].role != "assistant") return refused_mode(mode);
    TINKER_TRY(auto turn, turn_of(input, messages, i));
    if (!text.starts_with(std::string_view(turn.text).substr(0, turn.end))) {
      return Error::invalid_argument(
          concat("messages[",
                 i,
                 "] is written differently once others follow; build_supervised_examples makes an "
                 "example of each turn"));
    }
    turns.push_back(std::move(turn));
  }
  return example(text, turns);
}

Result<std::vector<SupervisedExample>> TemplateFormat::split(const PreparedMessages& conversation,
                                                             TrainOnWhat mode) const {
  const auto& messages = conversation.messages;
  if (!names_turns(mode)) {
    TINKER_TRY(auto example, supervised(conversation, mode));
    return std::vector{std::move(example)};
  }
  TINKER_TRY(check_trainable(messages, mode));
  if (mode == TrainOnWhat::customized) {
    TINKER_TRY(check_trained_roles(messages));
  }
  TINKER_TRY(const auto input, input_of(messages));
  TINKER_TRY(const auto text, text_of(input, messages.size(), false));
  const std::size_t start = turn_start(messages);
  std::vector<Turn> turns;
  bool extends = true;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!is_trained(messages, i, start, mode)) continue;
    TINKER_TRY(auto turn, turn_of(input, messages, i));
    extends = extends && text.starts_with(std::string_view(turn.text).substr(0, turn.end));
    turns.push_back(std::move(turn));
  }
  std::vector<SupervisedExample> out;
  if (turns.empty()) return out;
  if (auto whole = extends ? in_one(text, turns) : std::nullopt) {
    out.push_back(*std::move(whole));
    return out;
  }
  for (const auto& turn : turns) out.push_back(example(turn.text, {&turn, 1}));
  return out;
}

Result<ParsedResponse> TemplateFormat::parse(std::span<const std::int32_t> tokens) const {
  const auto end = std::ranges::find_if(
      tokens, [this](std::int32_t id) { return std::ranges::find(stops_, id) != stops_.end(); });
  const auto stop = end == tokens.end() ? stops_.front() : *end;
  TINKER_TRY(auto ended, text_before(tokenizer(), tokens, stop));
  if (ended.is_clean() && stop != stops_.front()) ended.termination = ParseTermination::eos;
  const bool goes_on = opens_thinking_ && !ended.text.starts_with(kThink);
  if (goes_on && ended.text.find(kThinkEnd) != std::string::npos) ended.text.insert(0, kThink);
  auto out = ended.as_is();
  if (!ended.is_clean()) return out;
  read_blocks(out.message);
  unframe_thinking(out.message);
  note_dangling(out.message, ended.text, "<tool_call>", "</tool_call>");
  return out;
}

Result<std::vector<Message>> TemplateFormat::declare_tools(std::span<const ToolSpec> tools,
                                                           std::string_view system_prompt) const {
  std::vector<Message> out;
  if (!system_prompt.empty()) {
    out.push_back({.role = "system", .content = std::string(system_prompt)});
  }
  if (tools.empty()) return out;
  if (!has_tools_) return Error::invalid_argument("the template has no place for tools");
  TINKER_TRY(auto json, dump_json(openai_tools(tools), kUnicodeJson));
  out.push_back({.role = std::string(kDeclareTools), .content = std::move(json)});
  return out;
}

}  // namespace

Format make_template_format(std::string_view source,
                            Tokenizer tokenizer,
                            const TemplateOptions& options) {
  auto parsed = jinja::Template::parse(source);
  if (!parsed.ok()) return std::move(parsed).error().with_context("the chat template");
  auto out = std::make_shared<TemplateFormat>(std::move(tokenizer), *std::move(parsed), options);
  if (options.date && !options.date->ok()) {
    return Error::invalid_argument("TemplateOptions::date is no day of the calendar");
  }
  TINKER_TRY(out->look_at(source));
  return std::shared_ptr<const ChatFormat>(std::move(out));
}

}  // namespace tinker::render
