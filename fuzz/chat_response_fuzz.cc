// Any tokens as the response of a model, in every format: a message or refused, the same when it
// comes token by token.
#include <cstdint>
#include <string_view>

#include "render_support.h"
#include "tinker/response_stream.h"
#include "wire/utf8.h"

namespace {

using tinker::ResponseDelta;

/// Deltas are text, and parts come one after the other.
void check_deltas(const std::vector<ResponseDelta>& deltas, std::size_t& part) {
  for (const auto& delta : deltas) {
    TINKER_CHECK(!delta.text.empty() && tinker::wire::is_utf8(delta.text));
    TINKER_CHECK(delta.part == part || delta.part == part + 1);
    part = delta.part;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto& renderer = tinker::testing::any_renderer(data[0]);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto tokens =
      renderer.tokenizer().encode(tinker::testing::with_marks(bytes), {.parse_special = true});

  const auto parsed = renderer.parse_response(tokens);
  tinker::ResponseStream stream(renderer);
  std::size_t part = 0;
  for (const auto token : tokens) check_deltas(stream.push(token), part);
  check_deltas(stream.finish(), part);
  const auto streamed = stream.response();

  TINKER_CHECK(parsed.ok() == streamed.ok());
  if (!parsed.ok()) return 0;
  TINKER_CHECK(*parsed == *streamed);
  const auto& message = parsed->message;
  const auto read = tinker::Message::from_json(tinker::to_json(message));
  TINKER_CHECK(read.ok() && *read == message);
  // What was said can be said again, or is refused.
  (void)renderer.build_supervised_example({{.role = "user", .content = "Hi"}, message});
  return 0;
}
