#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tinker/chat_format.h"
#include "tinker/renderer.h"
#include "tinker/result.h"
#include "tinker/types/model_input.h"

namespace tinker {

/// What is new in a response.
struct ResponseDelta {
  enum class Kind {
    header,  ///< The first one of a response; its text is the role.
    text,
    thinking,
    tool_call,  ///< Of a call as the format writes it; the parsed message has it as data.
  };

  Kind kind = Kind::text;
  std::string text = {};
  std::size_t part = 0;  ///< Deltas of the same part belong together.

  friend bool operator==(const ResponseDelta&, const ResponseDelta&) = default;
};

/// A response as its tokens come.
///
///     ResponseStream stream(renderer, prompt);
///     for (auto token : tokens) {
///       for (const auto& delta : stream.push(token)) show(delta);
///     }
///     for (const auto& delta : stream.finish()) show(delta);
///     auto message = stream.response().value().message;
///
/// Text is held back while it ends inside a character, or in what may be the beginning of a mark
/// such as "</think>". Deltas are for people to read along: a response that turns out to be
/// malformed has other parts in `response()`.
///
/// Thread-compatible.
class ResponseStream {
 public:
  /// After a prompt that ends with a message of the user.
  explicit ResponseStream(Renderer renderer);
  /// After this prompt: its end tells whether the model begins with its reasoning.
  ResponseStream(Renderer renderer, const ModelInput& prompt);

  ResponseStream(ResponseStream&&) noexcept;
  ResponseStream& operator=(ResponseStream&&) noexcept;
  ~ResponseStream();

  /// Nothing behind the token that ends the response.
  std::vector<ResponseDelta> push(std::int32_t token);
  /// What was held back.
  std::vector<ResponseDelta> finish();
  /// All tokens so far, parsed as `Renderer::parse_response` does.
  [[nodiscard]] Result<ParsedResponse> response() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace tinker
