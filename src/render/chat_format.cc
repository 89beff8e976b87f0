// The mechanics that all formats share: prompts, weights, and how a conversation is split.
//
// A conversation is rendered message by message; each piece is tokenised on its own, so that no
// token spans two of them. Weights follow from the mode, message by message. In the two "last"
// modes what the prompt would have supplied is then taken out again: a format may begin the model's
// message inside the prompt.
#include "tinker/chat_format.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "render/content.h"
#include "render/train_on.h"
#include "tinker/check.h"

namespace tinker {

namespace {

bool is_assistant(const Message& message) {
  return message.role == "assistant";
}

std::optional<std::size_t> last_user_of(std::span<const Message> messages) {
  for (std::size_t i = messages.size(); i-- > 0;) {
    if (messages[i].role == "user") return i;
  }
  return std::nullopt;
}

bool is_last_mode(TrainOnWhat mode) {
  return mode == TrainOnWhat::last_assistant_message || mode == TrainOnWhat::last_assistant_turn;
}

/// Where the messages of a conversation stand.
class Places {
 public:
  Places(const PreparedMessages& conversation, std::size_t turn_start)
      : conversation_(conversation),
        turn_start_(turn_start),
        last_user_(last_user_of(conversation.messages)) {}

  /// Behind the last message stands what is to come.
  [[nodiscard]] MessagePlace of(std::size_t index) const {
    const auto& messages = conversation_.messages;
    return {.index = index,
            .is_last = index + 1 >= messages.size(),
            .previous = index > 0 ? &messages[index - 1] : nullptr,
            .next = index + 1 < messages.size() ? &messages[index + 1] : nullptr,
            .last_user = last_user_,
            .is_in_last_turn = index >= turn_start_,
            .keeps_thinking_from = conversation_.keeps_thinking_from};
  }

 private:
  const PreparedMessages& conversation_;
  std::size_t turn_start_;
  std::optional<std::size_t> last_user_;
};

/// Chunks with a weight each, as one input: neighbouring texts become one chunk.
class Assembly {
 public:
  Result<void> add(const std::vector<ModelInputChunk>& chunks, float weight) {
    for (const auto& chunk : chunks) TINKER_TRY(add(chunk, weight));
    return {};
  }
  [[nodiscard]] SupervisedExample take() { return std::move(example_); }

 private:
  Result<void> add(const ModelInputChunk& chunk, float weight) {
    TINKER_TRY(const auto length, render::positions_of(chunk));
    if (const auto* text = std::get_if<EncodedTextChunk>(&chunk)) {
      auto& chunks = example_.input.chunks;
      auto* const before = chunks.empty() ? nullptr : std::get_if<EncodedTextChunk>(&chunks.back());
      if (before) {
        before->tokens.insert(before->tokens.end(), text->tokens.begin(), text->tokens.end());
      } else if (length > 0) {
        chunks.push_back(chunk);
      }
    } else {
      example_.input.chunks.push_back(chunk);
    }
    example_.weights.insert(example_.weights.end(), length, weight);
    return {};
  }

  SupervisedExample example_ = {};
};

bool is_text(const ModelInput& input) {
  return std::ranges::all_of(input.chunks, [](const ModelInputChunk& chunk) {
    return std::holds_alternative<EncodedTextChunk>(chunk);
  });
}

PreparedMessages first(const PreparedMessages& conversation, std::size_t count) {
  const auto begin = conversation.messages.begin();
  return {.messages = {begin, begin + static_cast<std::ptrdiff_t>(count)},
          .keeps_thinking_from = conversation.keeps_thinking_from};
}

}  // namespace

std::string_view to_string(ParseTermination termination) noexcept {
  switch (termination) {
    case ParseTermination::stop_sequence: return "stop_sequence";
    case ParseTermination::eos: return "eos";
    case ParseTermination::malformed: break;
  }
  return "malformed";
}

EncodedTextChunk ChatFormat::encode(std::string_view text) const {
  return {tokenizer_.encode(text, {.add_special_tokens = false, .parse_special = true})};
}

EncodedTextChunk ChatFormat::encode_plain(std::string_view text) const {
  return {tokenizer_.encode(text, {.add_special_tokens = false, .parse_special = false})};
}

std::int32_t ChatFormat::token(std::string_view content) const {
  const auto id = tokenizer_.token_to_id(content);
  TINKER_CHECK(id.has_value());
  return *id;
}

bool ChatFormat::knows_role(std::string_view role) const {
  return std::ranges::find(render::kRoles, role) != render::kRoles.end();
}

Result<PreparedMessages> ChatFormat::prepare(std::vector<Message> messages) const {
  return PreparedMessages{.messages = std::move(messages)};
}

Result<PreparedMessages> ChatFormat::first_messages(const PreparedMessages& conversation,
                                                    std::size_t count) const {
  return prepare(first(conversation, count).messages);
}

std::size_t ChatFormat::turn_start(std::span<const Message> messages) const {
  const auto last_user = last_user_of(messages);
  return last_user ? *last_user + 1 : 0;
}

Result<std::vector<ModelInputChunk>> ChatFormat::suffix(const std::string& role,
                                                        const MessagePlace& place) const {
  TINKER_TRY(auto rendered, render({.role = role}, place));
  return std::move(rendered.header);
}

std::string ChatFormat::opening(const MessagePlace& /*place*/, std::string prefill) const {
  return prefill;
}

Result<std::vector<Message>> ChatFormat::declare_tools(std::span<const ToolSpec> /*tools*/,
                                                       std::string_view /*system_prompt*/) const {
  return Error::invalid_argument("this format has no way to tell the model of tools");
}

Result<ModelInput> ChatFormat::prompt(const PreparedMessages& conversation,
                                      const std::string& role,
                                      const std::string& prefill) const {
  const auto& messages = conversation.messages;
  const Places places(conversation, turn_start(messages));
  Assembly out;
  TINKER_TRY(out.add(begin(), 0));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    TINKER_TRY(const auto rendered, render(messages[i], places.of(i)));
    TINKER_TRY(out.add(rendered.header, 0));
    TINKER_TRY(out.add(rendered.output, 0));
  }
  auto place = places.of(messages.size());
  place.is_in_last_turn = true;
  TINKER_TRY(const auto end, suffix(role, place));
  TINKER_TRY(out.add(end, 0));
  const std::vector<ModelInputChunk> given = {encode(opening(place, prefill))};
  TINKER_TRY(out.add(given, 0));
  return out.take().input;
}

Result<SupervisedExample> ChatFormat::supervised(const PreparedMessages& conversation,
                                                 TrainOnWhat mode) const {
  const auto& messages = conversation.messages;
  TINKER_TRY(render::check_trainable(messages, mode));
  const std::span all(messages);
  const std::size_t start = turn_start(all.first(all.empty() ? 0 : all.size() - 1));
  const Places places(conversation, start);
  Assembly out;
  TINKER_TRY(out.add(begin(), 0));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    TINKER_TRY(const auto rendered, render(messages[i], places.of(i)));
    const float weight = render::is_trained(messages, i, start, mode) ? 1.0F : 0.0F;
    TINKER_TRY(out.add(rendered.header, mode == TrainOnWhat::all_tokens ? 1.0F : 0.0F));
    TINKER_TRY(out.add(rendered.output, weight));
    if (i + 1 == messages.size()) {
      TINKER_TRY(out.add(rendered.stop_overlap, weight));
    }
  }
  auto example = out.take();
  if (!is_last_mode(mode) || messages.empty() || !is_text(example.input)) return example;

  // What the prompt of the first trained message supplies, the model need not learn.
  const auto user = last_user_of(messages);
  const std::size_t boundary = mode == TrainOnWhat::last_assistant_message ? messages.size() - 1
                               : user                                      ? *user + 1
                                                                           : 0;
  if (boundary >= messages.size() || !is_assistant(messages[boundary])) return example;
  TINKER_TRY(const auto before, prompt(first(conversation, boundary), "assistant", {}));
  TINKER_TRY(const auto given, before.to_tokens());
  TINKER_TRY(const auto tokens, example.input.to_tokens());
  if (std::ranges::mismatch(given, tokens).in1 == given.end()) {
    std::fill_n(example.weights.begin(), given.size(), 0.0F);
  } else if (disables_thinking()) {
    return Error::invalid_argument(
        base::concat("messages[",
                     boundary,
                     "] does not go on where its prompt ends: this renderer "
                     "turns thinking off, and the message has reasoning, or none of the frame that "
                     "the prompt closes"));
  }
  return example;
}

Result<std::vector<SupervisedExample>> ChatFormat::split(const PreparedMessages& conversation,
                                                         TrainOnWhat mode) const {
  if (has_extension_property()) {
    TINKER_TRY(auto example, supervised(conversation, mode));
    return std::vector{std::move(example)};
  }
  const auto& messages = conversation.messages;
  std::size_t begin = 0;
  switch (mode) {
    case TrainOnWhat::customized: TINKER_TRY(render::check_trained_roles(messages)); break;
    case TrainOnWhat::last_assistant_message:
      begin = messages.empty() ? 0 : messages.size() - 1;
      break;
    case TrainOnWhat::last_assistant_turn: begin = turn_start(messages); break;
    case TrainOnWhat::all_assistant_messages: break;
    default:
      return Error::invalid_argument(
          base::concat("this format writes earlier turns differently once others follow, so a "
                       "conversation becomes several examples; for that the mode must name "
                       "messages of the assistant, not '",
                       to_string(mode),
                       "'"));
  }
  std::vector<SupervisedExample> out;
  for (std::size_t i = begin; i < messages.size(); ++i) {
    if (!is_assistant(messages[i])) continue;
    if (mode == TrainOnWhat::customized && !*messages[i].trainable) continue;
    TINKER_TRY(auto part, first_messages(conversation, i + 1));
    for (auto& message : part.messages) message.trainable.reset();
    TINKER_TRY(auto example, supervised(part, TrainOnWhat::last_assistant_message));
    out.push_back(std::move(example));
  }
  return out;
}

}  // namespace tinker
