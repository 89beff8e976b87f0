#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tinker/result.h"

namespace tinker::wire {

/// One value of a parsed document. Cheap to copy; valid while its `JsonDocument` lives.
///
/// Hides the parser, whose header costs seconds in every file that sees it.
class JsonView {
 public:
  enum class Kind { null, boolean, integer, large_integer, number, string, array, object };

  [[nodiscard]] Kind kind() const noexcept;
  /// "a string", "null" ...: for messages.
  [[nodiscard]] std::string_view kind_name() const noexcept;

  // Each requires the kind it names.
  [[nodiscard]] bool boolean() const noexcept;
  [[nodiscard]] std::int64_t integer() const noexcept;
  [[nodiscard]] std::uint64_t large_integer() const noexcept;  ///< Above the range of int64.
  [[nodiscard]] double number() const noexcept;                ///< Any of the three number kinds.
  [[nodiscard]] std::string_view string() const noexcept;

  /// The integer this number is, also when written `3.0`; nothing when it is none of 64 bits.
  [[nodiscard]] std::optional<std::int64_t> as_integer() const noexcept;
  [[nodiscard]] bool is_number() const noexcept {
    return kind() >= Kind::integer && kind() <= Kind::number;
  }

  /// Calls `visit(JsonView)` for each element of an array until it returns false; true when all
  /// were visited.
  // NOLINTBEGIN(modernize-use-nodiscard): only visitors that stop care about the result.
  template <typename Visit>
  bool for_each_element(Visit visit) const {
    return visit_elements(
        [](void* v, JsonView element) { return (*static_cast<Visit*>(v))(element); }, &visit);
  }
  /// Calls `visit(std::string_view, JsonView)` for each member of an object until it returns false.
  template <typename Visit>
  bool for_each_member(Visit visit) const {
    return visit_members(
        [](void* v, std::string_view name, JsonView value) {
          return (*static_cast<Visit*>(v))(name, value);
        },
        &visit);
  }
  // NOLINTEND(modernize-use-nodiscard)
  /// The member of that name, the last one when it is repeated.
  [[nodiscard]] std::optional<JsonView> member(std::string_view name) const;

  /// Appends all elements of an array of numbers; nothing, or the index of the first that does not
  /// fit.
  [[nodiscard]] std::optional<std::size_t> append_to(std::vector<std::int32_t>& out) const;
  [[nodiscard]] std::optional<std::size_t> append_to(std::vector<std::int64_t>& out) const;
  [[nodiscard]] std::optional<std::size_t> append_to(std::vector<float>& out) const;

 private:
  friend class JsonDocument;
  using ElementVisitor = bool (*)(void* context, JsonView element);
  using MemberVisitor = bool (*)(void* context, std::string_view name, JsonView value);
  struct Access;

  bool visit_elements(ElementVisitor visit, void* context) const;
  bool visit_members(MemberVisitor visit, void* context) const;

  [[maybe_unused]] std::array<std::uintptr_t, 2> element_ = {};  // the parser's own handle
};

/// A parsed JSON text.
class JsonDocument {
 public:
  /// One document, UTF-8, nothing after it; numbers within double range, nesting at most 1024. The
  /// error begins with the path at which the text goes wrong. Integers beyond 64 bits become
  /// floats.
  static Result<JsonDocument> parse(std::string_view text);

  [[nodiscard]] JsonView root() const noexcept { return root_; }

 private:
  struct Parser;
  /// Keeps one small parser per thread for the next document.
  struct Recycle {
    void operator()(Parser* parser) const noexcept;
  };
  using ParserPtr = std::unique_ptr<Parser, Recycle>;
  static ParserPtr take_parser();
  JsonDocument(ParserPtr parser, JsonView root);

  ParserPtr parser_;
  JsonView root_;
};

}  // namespace tinker::wire
