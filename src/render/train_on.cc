#include "render/train_on.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/strings.h"

namespace tinker {

namespace {

constexpr std::array<std::string_view, 7> kModes = {"last_assistant_message",
                                                    "last_assistant_turn",
                                                    "all_assistant_messages",
                                                    "all_messages",
                                                    "all_tokens",
                                                    "all_user_and_system_messages",
                                                    "customized"};

}  // namespace

std::string_view to_string(TrainOnWhat mode) noexcept {
  return kModes.at(static_cast<std::size_t>(mode));
}

Result<TrainOnWhat> parse_train_on_what(std::string_view text) {
  const auto found = std::ranges::find(kModes, text);
  if (found != kModes.end()) return static_cast<TrainOnWhat>(found - kModes.begin());
  std::string known;
  for (const auto mode : kModes) known += base::concat(known.empty() ? "" : ", ", mode);
  return Error::invalid_argument(base::concat("expected one of ", known, ", found '", text, "'"));
}

}  // namespace tinker

namespace tinker::render {

Result<void> check_trainable(std::span<const Message> messages, TrainOnWhat mode) {
  const bool is_custom = mode == TrainOnWhat::customized;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].trainable.has_value() == is_custom) continue;
    return Error::invalid_argument(
        base::concat("messages[",
                     i,
                     "].trainable is ",
                     is_custom ? "missing: the mode 'customized' needs it in every message"
                               : "given, but only the mode 'customized' looks at it"));
  }
  return {};
}

Result<void> check_trained_roles(std::span<const Message> messages) {
  TINKER_TRY(check_trainable(messages, TrainOnWhat::customized));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!*messages[i].trainable || messages[i].role == "assistant") continue;
    return Error::invalid_argument(
        base::concat("messages[",
                     i,
                     "] of '",
                     messages[i].role,
                     "' is trainable: this format writes earlier turns differently once others "
                     "follow, so a conversation becomes several examples, and only messages of the "
                     "assistant can be trained"));
  }
  return {};
}

bool names_turns(TrainOnWhat mode) {
  return mode == TrainOnWhat::customized || mode == TrainOnWhat::last_assistant_message ||
         mode == TrainOnWhat::last_assistant_turn || mode == TrainOnWhat::all_assistant_messages;
}

bool is_trained(std::span<const Message> messages,
                std::size_t index,
                std::size_t turn_start,
                TrainOnWhat mode) {
  const Message& message = messages[index];
  switch (mode) {
    case TrainOnWhat::last_assistant_message:
      return index + 1 == messages.size() && message.role == "assistant";
    case TrainOnWhat::last_assistant_turn:
      return index >= turn_start && message.role == "assistant";
    case TrainOnWhat::all_assistant_messages: return message.role == "assistant";
    case TrainOnWhat::all_messages:
    case TrainOnWhat::all_tokens: return true;
    case TrainOnWhat::all_user_and_system_messages:
      return message.role == "user" || message.role == "system";
    case TrainOnWhat::customized: return message.trainable.value_or(false);
  }
  return false;
}

}  // namespace tinker::render
