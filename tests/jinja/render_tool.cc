// Renders templates for tests/jinja/compare.py: a JSON document a line on standard input,
// {"template", "variables", "now"}, and one a line on standard output, {"text"} or {"error"}.
#include <iostream>
#include <string>

#include "formats/json_string.h"
#include "jinja/template.h"
#include "wire/json_reader.h"

namespace tinker {
namespace {

jinja::Value to_value(wire::JsonView view) {
  using Kind = wire::JsonView::Kind;
  switch (view.kind()) {
    case Kind::null: return {};
    case Kind::boolean: return view.boolean();
    case Kind::integer: return view.integer();
    case Kind::large_integer:
    case Kind::number: return view.number();
    case Kind::string: return view.string();
    case Kind::array: {
      jinja::List out;
      view.for_each_element([&out](wire::JsonView element) {
        out.push_back(to_value(element));
        return true;
      });
      return out;
    }
    case Kind::object: {
      jinja::Dict out;
      view.for_each_member([&out](std::string_view name, wire::JsonView value) {
        out.set(name, to_value(value));
        return true;
      });
      return out;
    }
  }
  return {};
}

std::string answer(const std::string& line) {
  const auto document = wire::JsonDocument::parse(line).value();
  const auto source = document.root().member("template").value().string();
  const auto now = document.root().member("now").value().integer();
  const auto rendered = [&]() -> Result<std::string> {
    TINKER_TRY(const auto parsed, jinja::Template::parse(source));
    return parsed.render(to_value(document.root().member("variables").value()).dict(),
                         {.now = std::chrono::sys_seconds(std::chrono::seconds(now))});
  }();
  std::string out = rendered.ok() ? "{\"text\":" : "{\"error\":";
  formats::append_json_string(out, rendered.ok() ? *rendered : rendered.error().message);
  return out + "}";
}

}  // namespace
}  // namespace tinker

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << tinker::answer(line) << std::endl;
  }
}
