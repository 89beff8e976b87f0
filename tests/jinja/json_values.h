#pragma once

#include <string_view>

#include "jinja/value.h"
#include "wire/json_reader.h"

namespace tinker::testing {

/// What a JSON document is to a template.
inline jinja::Value to_template_value(wire::JsonView view) {
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
        out.push_back(to_template_value(element));
        return true;
      });
      return out;
    }
    case Kind::object: {
      jinja::Dict out;
      view.for_each_member([&out](std::string_view name, wire::JsonView value) {
        out.set(name, to_template_value(value));
        return true;
      });
      return out;
    }
  }
  return {};
}

}  // namespace tinker::testing
