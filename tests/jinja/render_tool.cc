// Renders templates for compare.py: a JSON document a line on standard input, {"template",
// "variables", "now"}, and one a line on standard output, {"text"} or {"error"}.
#include <chrono>
#include <iostream>
#include <string>

#include "formats/json_string.h"
#include "jinja/json_values.h"
#include "jinja/template.h"

namespace tinker {
namespace {

Result<std::string> render(const wire::JsonDocument& request) {
  const auto root = request.root();
  TINKER_TRY(const auto parsed, jinja::Template::parse(root.member("template")->string()));
  const std::chrono::seconds now(root.member("now")->integer());
  const auto variables = testing::to_template_value(*root.member("variables"));
  return parsed.render(variables.dict(), {.now = std::chrono::sys_seconds(now)});
}

}  // namespace
}  // namespace tinker

// NOLINTNEXTLINE(bugprone-exception-escape): what compare.py writes can be read.
int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto rendered = tinker::render(tinker::wire::JsonDocument::parse(line).value());
    std::string out = rendered.ok() ? "{\"text\":" : "{\"error\":";
    tinker::formats::append_json_string(out, rendered.ok() ? *rendered : rendered.error().message);
    std::cout << out << "}\n" << std::flush;
  }
}
