// Any text as a template: it is rendered or refused, soon and in little memory.
#include <cstdint>
#include <string_view>

#include "jinja/template.h"
#include "tinker/check.h"

namespace {

using tinker::jinja::Dict;
using tinker::jinja::List;

Dict variables() {
  Dict message;
  message.set("role", "user");
  message.set("content", " größer\n<think>x</think> ");
  Dict out;
  out.set("messages", List{message, message});
  out.set("add_generation_prompt", true);
  out.set("bos_token", "<s>");
  out.set("n", std::int64_t{7});
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = tinker::jinja::Template::parse(source);
  if (!parsed.ok()) return 0;
  static const Dict names = variables();
  const auto text = parsed->render(names, {.max_bytes = 1 << 16, .max_steps = 20'000});
  TINKER_CHECK(!text.ok() || text->size() <= 1 << 16);
  return 0;
}
