// Lines of training data, and what becomes of them.
#include "render/data_row.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "render/content.h"
#include "render/train_on.h"
#include "tinker/chat_format.h"
#include "tinker/training_data.h"
#include "wire/json.h"

namespace tinker {

namespace {

using base::concat;

/// Messages, or a text that somebody of the role says.
Result<std::vector<Message>> messages_of(const Json& json,
                                         std::string_view member,
                                         std::string_view role) {
  const Json* value = json.find(member);
  if (!value) return Error::invalid_argument(concat("'", member, "' is missing"));
  if (const auto* text = value->get_if<std::string>()) {
    return std::vector<Message>{{.role = std::string(role), .content = *text}};
  }
  if (!value->get_if<Json::Array>()) {
    return Error::invalid_argument(concat(member, ": expected a text or a list of messages"));
  }
  auto read = Conversation::from_json(*value);
  if (!read.ok()) return std::move(read).error().with_context(member);
  return std::move(read->messages);
}

/// "tools", as a conversation has them.
Result<std::vector<ToolSpec>> tools_of(const Json& json) {
  const Json* tools = json.find("tools");
  if (!tools) return std::vector<ToolSpec>();
  TINKER_TRY(auto read,
             Conversation::from_json(Json::Object{{"messages", Json::Array()}, {"tools", *tools}}));
  return std::move(read.tools);
}

Result<DataRow> preference(const Json& json,
                           std::string_view prompt,
                           std::string_view chosen,
                           std::string_view rejected) {
  PreferenceRow row;
  TINKER_TRY(row.prompt, messages_of(json, prompt, "user"));
  TINKER_TRY(row.chosen, messages_of(json, chosen, "assistant"));
  TINKER_TRY(row.rejected, messages_of(json, rejected, "assistant"));
  TINKER_TRY(row.tools, tools_of(json));
  return DataRow(std::move(row));
}

Result<DataRow> comparison(const Json& json) {
  const Json* label = json.find("label");
  const auto* which = label ? label->get_if<std::string>() : nullptr;
  if (!which || (*which != "A" && *which != "B" && *which != "Tie")) {
    return Error::invalid_argument(R"('label' of a comparison must be "A", "B" or "Tie")");
  }
  const bool is_first = *which == "A";
  return preference(*json.find("comparison"),
                    "prompt_conversation",
                    is_first ? "completion_A" : "completion_B",
                    is_first ? "completion_B" : "completion_A");
}

/// The text of a message that has nothing else.
Result<std::string> text_alone(const Message& message) {
  if (const auto* parts = std::get_if<std::vector<ContentPart>>(&message.content)) {
    for (const auto& part : *parts) {
      if (!std::holds_alternative<TextPart>(part)) return render::refused_part(message, part);
    }
  }
  return message.text();
}

std::vector<Message> joined(std::vector<Message> first, const std::vector<Message>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

/// What rendering alone would pass over, because the official cookbook does.
Result<void> check_messages(const std::vector<Message>& messages, const Renderer& renderer) {
  const auto& format = renderer.format();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!format.knows_role(messages[i].role)) {
      return Error::invalid_argument(concat("messages[",
                                            i,
                                            "]: '",
                                            messages[i].role,
                                            "' is no role that is known; expected one of ",
                                            render::joined_roles()));
    }
    if (!format.writes_tool_calls() && !render::calls_of(messages[i]).empty()) {
      return Error::invalid_argument(concat("messages[",
                                            i,
                                            "] calls '",
                                            messages[i].tool_calls->front().name,
                                            "', but the renderer '",
                                            renderer.name(),
                                            "' writes no calls: they would not be trained"));
    }
  }
  return {};
}

Result<std::vector<Datum>> data_of(const Conversation& conversation,
                                   const Renderer& renderer,
                                   TrainOnWhat mode,
                                   const RenderOptions& options) {
  TINKER_TRY(auto examples, render::examples_of(conversation, renderer, mode, options.splits));
  std::vector<Datum> out;
  out.reserve(examples.size());
  for (auto& example : examples) {
    TINKER_TRY(auto datum, to_datum(std::move(example), options.datum));
    out.push_back(std::move(datum));
  }
  return out;
}

Result<std::vector<Datum>> data_of(const PreferenceRow& row,
                                   const Renderer& renderer,
                                   RenderOptions options) {
  options.datum.reduction = WeightReduction::none;
  options.splits = false;
  const auto mode = options.train_on.value_or(TrainOnWhat::last_assistant_message);
  std::vector<Datum> out;
  for (const auto* completion : {&row.chosen, &row.rejected}) {
    const Conversation whole = {.messages = joined(row.prompt, *completion), .tools = row.tools};
    TINKER_TRY(auto data, data_of(whole, renderer, mode, options));
    out.push_back(std::move(data.front()));
  }
  return out;
}

Result<std::vector<Datum>> data_of(const TextRow& row,
                                   const Renderer& renderer,
                                   const RenderOptions& options) {
  auto tokens = renderer.tokenizer().encode(row.text);
  std::vector<float> weights(tokens.size(), 1.0F);
  TINKER_TRY(
      auto datum,
      to_datum({.input = ModelInput::from_tokens(std::move(tokens)), .weights = std::move(weights)},
               options.datum));
  return std::vector<Datum>{std::move(datum)};
}

/// What of a row is trained unless the user says it: all that the assistant says behind the prompt.
Result<TrainOnWhat> mode_of(const ConversationRow& row) {
  const auto& messages = row.conversation.messages;
  const auto behind = messages.begin() + static_cast<std::ptrdiff_t>(row.prompt_size);
  const auto by = [](std::string_view role) {
    return [role](const Message& message) { return message.role == role; };
  };
  if (std::none_of(messages.begin(), behind, by("assistant"))) {
    return TrainOnWhat::all_assistant_messages;
  }
  if (messages.end() - behind == 1) return TrainOnWhat::last_assistant_message;
  if (std::prev(behind)->role == "user" && std::none_of(behind, messages.end(), by("user"))) {
    return TrainOnWhat::last_assistant_turn;
  }
  return Error::invalid_argument(
      "a prompt with answers of the assistant, and a completion of several turns: give both as "
      "'messages' that say what is 'trainable'");
}

}  // namespace

Result<std::vector<SupervisedExample>> render::examples_of(const Conversation& conversation,
                                                           const Renderer& renderer,
                                                           TrainOnWhat mode,
                                                           bool splits) {
  TINKER_TRY(check_messages(conversation.messages, renderer));
  TINKER_TRY(auto messages, with_tools(conversation, renderer));
  if (splits && names_turns(mode)) {
    return renderer.build_supervised_examples(std::move(messages), mode);
  }
  TINKER_TRY(auto example, renderer.build_supervised_example(std::move(messages), mode));
  return std::vector{std::move(example)};
}

Result<std::vector<Message>> render::with_tools(const Conversation& conversation,
                                                const Renderer& renderer) {
  if (conversation.tools.empty()) return conversation.messages;
  auto messages = conversation.messages;
  std::string system;
  // Where messages say whether they are trained, those before them must say so, too.
  std::optional<bool> trainable;
  if (!messages.empty() && messages.front().trainable) trainable = false;
  if (!messages.empty() && messages.front().role == "system") {
    TINKER_TRY(system, text_alone(messages.front()));
    trainable = messages.front().trainable;
    messages.erase(messages.begin());
  }
  TINKER_TRY(auto prefix,
             renderer.create_conversation_prefix_with_tools(conversation.tools, system));
  for (auto& message : prefix) message.trainable = trainable;
  return joined(std::move(prefix), messages);
}

Result<DataRow> parse_data_row(std::string_view line) {
  TINKER_TRY(const auto json, wire::decode_json<Json>(line));
  const auto has = [&json](std::string_view member) {
    const Json* value = json.find(member);
    return value && !value->is_null();  // tables write null where a row has no such member
  };
  if (has("messages")) {
    TINKER_TRY(auto conversation, Conversation::from_json(json));
    return DataRow(ConversationRow{.conversation = std::move(conversation)});
  }
  if (has("comparison")) return comparison(json);
  if (has("chosen")) return preference(json, "prompt", "chosen", "rejected");
  if (has("completion")) {
    TINKER_TRY(auto prompt, messages_of(json, "prompt", "user"));
    TINKER_TRY(const auto completion, messages_of(json, "completion", "assistant"));
    TINKER_TRY(auto tools, tools_of(json));
    const auto prompt_size = prompt.size();
    return DataRow(
        ConversationRow{.conversation = {.messages = joined(std::move(prompt), completion),
                                         .tools = std::move(tools)},
                        .prompt_size = prompt_size});
  }
  const Json* text = json.find("text");
  if (text && text->get_if<std::string>()) {
    return DataRow(TextRow{*text->get_if<std::string>()});
  }
  return Error::invalid_argument(
      "expected an object with 'messages', with 'prompt' and 'completion', with 'prompt', 'chosen' "
      "and 'rejected', with 'comparison' and 'label', or with 'text'");
}

Result<std::vector<Datum>> to_data(const DataRow& row,
                                   const Renderer& renderer,
                                   const RenderOptions& options) {
  if (const auto* preference = std::get_if<PreferenceRow>(&row)) {
    return data_of(*preference, renderer, options);
  }
  if (const auto* text = std::get_if<TextRow>(&row)) return data_of(*text, renderer, options);
  const auto& conversation = std::get<ConversationRow>(row);
  auto mode = options.train_on;
  if (!mode) {
    TINKER_TRY(mode, mode_of(conversation));
  }
  return data_of(conversation.conversation, renderer, *mode, options);
}

}  // namespace tinker
