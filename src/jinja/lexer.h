#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"

namespace tinker::jinja {

/// Where something stands in a template, both from 1; columns count code points.
struct Position {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

struct Token {
  enum class Kind : std::uint8_t {
    data,            // text between the tags
    variable_begin,  // {{
    variable_end,    // }}
    block_begin,     // {%
    block_end,       // %}
    name,
    string,
    integer,
    real,
    sign,  // an operator or a bracket
    end,
  };
  Kind kind = Kind::end;
  std::string text = {};  ///< Of a string, what it stands for.
  std::int64_t integer = 0;
  double real = 0;
  Position position = {};

  [[nodiscard]] bool is(Kind wanted, std::string_view spelling) const noexcept {
    return kind == wanted && text == spelling;
  }
  [[nodiscard]] bool is_name(std::string_view name) const noexcept { return is(Kind::name, name); }
  [[nodiscard]] bool is_sign(std::string_view sign) const noexcept { return is(Kind::sign, sign); }
};

/// The tokens of a template, an `end` behind them, with `trim_blocks` and `lstrip_blocks` as chat
/// templates are written for. Errors name the position.
Result<std::vector<Token>> read_tokens(std::string_view source);

/// "line 3, column 14: …"
Error error_at(Position position, std::string_view message);

}  // namespace tinker::jinja
