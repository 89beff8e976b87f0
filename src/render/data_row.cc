// Lines of training data, and what becomes of them.
#include "render/data_row.h"

#include <utility>

#include "base/strings.h"
#include "render/content.h"
#include "render/train_on.h"
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

Result<DataRow> preference(const Json& json,
                           std::string_view prompt,
                           std::string_view chosen,
                           std::string_view rejected) {
  PreferenceRow row;
  TINKER_TRY(row.prompt, messages_of(json, prompt, "user"));
  TINKER_TRY(row.chosen, messages_of(json, chosen, "assistant"));
  TINKER_TRY(row.rejected, messages_of(json, rejected, "assistant"));
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

Result<std::vector<Datum>> data_of(std::vector<Message> messages,
                                   const Renderer& renderer,
                                   TrainOnWhat mode,
                                   const RenderOptions& options) {
  std::vector<SupervisedExample> examples;
  if (options.splits && render::names_turns(mode)) {
    TINKER_TRY(examples, renderer.build_supervised_examples(std::move(messages), mode));
  } else {
    TINKER_TRY(auto example, renderer.build_supervised_example(std::move(messages), mode));
    examples.push_back(std::move(example));
  }
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
    TINKER_TRY(auto data, data_of(joined(row.prompt, *completion), renderer, mode, options));
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

}  // namespace

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
  if (json.find("messages")) {
    TINKER_TRY(auto conversation, Conversation::from_json(json));
    return DataRow(ConversationRow{std::move(conversation)});
  }
  if (json.find("comparison")) return comparison(json);
  if (json.find("chosen")) return preference(json, "prompt", "chosen", "rejected");
  if (json.find("completion")) {
    TINKER_TRY(auto prompt, messages_of(json, "prompt", "user"));
    TINKER_TRY(const auto completion, messages_of(json, "completion", "assistant"));
    return DataRow(ConversationRow{{.messages = joined(std::move(prompt), completion)}});
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
  TINKER_TRY(auto messages,
             render::with_tools(std::get<ConversationRow>(row).conversation, renderer));
  const auto mode = options.train_on.value_or(TrainOnWhat::all_assistant_messages);
  return data_of(std::move(messages), renderer, mode, options);
}

}  // namespace tinker
