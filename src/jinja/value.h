#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tinker/result.h"

namespace tinker::jinja {

class Dict;
class Value;
struct Callable;
struct LoopState;

using List = std::vector<Value>;

/// A value of a template: what Python's would be. Strings, lists and dicts are shared and never
/// change; namespaces do.
///
/// Thread-compatible.
class Value {
 public:
  enum class Kind : std::uint8_t {
    undefined,
    none,
    boolean,
    integer,
    real,
    string,
    list,
    tuple,
    dict,
    name_space,
    callable,
    loop,
    generator,
  };

  Value() noexcept = default;
  // NOLINTBEGIN(google-explicit-constructor): literals become values.
  Value(bool value) noexcept : kind_(Kind::boolean), scalar_{.integer = value ? 1 : 0} {}
  Value(std::int64_t value) noexcept : kind_(Kind::integer), scalar_{.integer = value} {}
  Value(double value) noexcept : kind_(Kind::real), scalar_{.real = value} {}
  Value(std::string text)
      : kind_(Kind::string),
        scalar_{.integer = mark_of(text)},
        object_(std::make_shared<std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(List items);
  Value(Dict items);
  // NOLINTEND(google-explicit-constructor)

  /// What a name stands for that nothing defines. `why` is the message of what cannot go on with
  /// it.
  static Value undefined(std::string why);
  static Value tuple(List items);
  /// Text that `safe` marked: other text that joins it is escaped.
  static Value markup(std::string text);
  static Value text_like(const Value& model, std::string text);
  /// An integer beyond 64 bits: a real number that is written with all its digits.
  static Value large_integer(double value, std::string digits);
  static Value name_space(std::shared_ptr<Dict> items);
  static Value callable(Callable what);
  static Value loop(std::shared_ptr<LoopState> state);
  /// Elements that are made when somebody goes through them, and only once.
  /// `depth`: of what they are made of.
  static Value generator(std::function<Result<List>()> make, std::size_t depth);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is(Kind kind) const noexcept { return kind_ == kind; }
  [[nodiscard]] bool is_none() const noexcept { return is(Kind::none); }
  [[nodiscard]] bool is_undefined() const noexcept { return is(Kind::undefined); }
  [[nodiscard]] bool is_string() const noexcept { return is(Kind::string); }
  [[nodiscard]] bool is_dict() const noexcept { return is(Kind::dict); }
  [[nodiscard]] bool is_sequence() const noexcept { return is(Kind::list) || is(Kind::tuple); }
  /// An integer or a boolean, which is one in Python.
  [[nodiscard]] bool is_integral() const noexcept { return is(Kind::integer) || is(Kind::boolean); }
  [[nodiscard]] bool is_number() const noexcept { return is_integral() || is(Kind::real); }
  [[nodiscard]] bool is_markup() const noexcept { return is_safe_; }
  /// "str", "int" and so on, as Python names them.
  [[nodiscard]] std::string_view type_name() const noexcept;

  // Each requires the kind it names.
  [[nodiscard]] const std::string& why() const noexcept { return as<std::string>(); }
  [[nodiscard]] std::int64_t integral() const noexcept { return scalar_.integer; }
  [[nodiscard]] double number() const noexcept {
    return is(Kind::real) ? scalar_.real : static_cast<double>(scalar_.integer);
  }
  [[nodiscard]] const std::string& text() const noexcept { return as<std::string>(); }
  /// The digits of a large integer; null for any other real number.
  [[nodiscard]] const std::string* digits() const noexcept {
    return object_ ? &as<std::string>() : nullptr;
  }
  [[nodiscard]] const List& items() const noexcept;  ///< Of a list or a tuple.
  [[nodiscard]] const Dict& dict() const noexcept;
  [[nodiscard]] Dict& name_space() const noexcept;
  [[nodiscard]] const Callable& callable() const noexcept;
  [[nodiscard]] const LoopState& loop() const noexcept;
  [[nodiscard]] std::shared_ptr<LoopState> shared_loop() const noexcept;
  /// The elements of a generator; none the second time.
  [[nodiscard]] Result<List> generate() const;
  /// Whether both are the same object.
  [[nodiscard]] bool is_same(const Value& other) const;
  /// Whether both are strings of the same text.
  [[nodiscard]] bool is_same_text(const Value& other) const noexcept {
    return is_string() && other.is_string() && scalar_.integer == other.scalar_.integer &&
           (is_whole(scalar_.integer) || text() == other.text());
  }

  [[nodiscard]] bool truth() const;
  /// How deep what it holds is nested. Namespaces end it: only they can hold themselves.
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }

 private:
  struct Generator;

  /// The size of a text and its first bytes: most comparisons end with these, which need not be
  /// fetched from elsewhere.
  static std::int64_t mark_of(std::string_view text) noexcept {
    std::uint64_t mark = std::min<std::size_t>(text.size(), 0xff);
    for (std::size_t i = 0; i < std::min<std::size_t>(text.size(), kWholeText); ++i) {
      mark |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i + 1));
    }
    return static_cast<std::int64_t>(mark);
  }
  /// Whether the mark holds all of its text.
  static bool is_whole(std::int64_t mark) noexcept { return (mark & 0xff) <= kWholeText; }
  static constexpr std::int64_t kWholeText = 7;

  Value(Kind kind, std::shared_ptr<void> object, std::size_t depth = 1) noexcept
      : kind_(kind), depth_(static_cast<std::uint32_t>(depth)), object_(std::move(object)) {}

  template <typename T>
  [[nodiscard]] T& as() const noexcept {
    return *static_cast<T*>(object_.get());
  }

  Kind kind_ = Kind::none;
  bool is_safe_ = false;
  std::uint32_t depth_ = 1;
  union {
    std::int64_t integer = 0;
    double real;
  } scalar_;                           // of booleans and numbers; the mark of a string
  std::shared_ptr<void> object_ = {};  // of all others; what it is, `kind_` says
};

/// Keys and values in the order in which the keys came.
///
/// Thread-compatible.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* member(std::string_view key) const { return find(Value(key)); }
  void set(Value key, Value value);

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }

 private:
  /// As many as there are where there is none.
  [[nodiscard]] std::size_t place_of(const Value& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> places_;  // of the keys that are strings, if many
};

/// What a call brings.
struct Arguments {
  List positional = {};
  std::vector<std::pair<std::string, Value>> named = {};

  /// Takes the argument at `place` or of that name away; nothing if there is none.
  std::optional<Value> take(std::size_t place, std::string_view name);
  /// Fails if an argument is left that `take` has not found: one of `count` places or by name.
  [[nodiscard]] Result<void> expect_no_more(std::string_view callee, std::size_t count) const;
};

/// A macro, a method of a value, or a function that the template was given.
struct Callable {
  std::string name = {};
  std::function<Result<Value>(Arguments)> call = {};
  std::size_t depth = 1;  ///< Of the values that `call` holds.
};

/// Python's `==`.
[[nodiscard]] bool equal(const Value& a, const Value& b);
/// Python's `<`; fails for what has no order.
[[nodiscard]] Result<bool> less(const Value& a, const Value& b);
/// Python's `str()`: what the template prints.
[[nodiscard]] std::string to_text(const Value& value);
/// Python's `repr()`.
[[nodiscard]] std::string to_repr(const Value& value);
/// Python's `repr()` of a float: the shortest digits that read back as the same number.
[[nodiscard]] std::string real_text(double value);
/// What a loop over the value meets; fails for what has no elements.
[[nodiscard]] Result<List> elements(const Value& value);
/// As HTML has it.
[[nodiscard]] std::string escape_html(std::string_view text);

/// "an int": for messages.
[[nodiscard]] std::string described(const Value& value);

[[nodiscard]] Error template_error(std::string message);

}  // namespace tinker::jinja
