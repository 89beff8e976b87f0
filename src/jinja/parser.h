#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "jinja/syntax.h"

namespace tinker::jinja {

/// Reads tokens as a template, by recursive descent with the precedences of Jinja.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens);

  Result<Syntax> read();

 private:
  using ExpressionResult = Result<ExpressionPtr>;

  /// Counts how deep what is read is nested: reading recurses.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) { ++parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser_.depth_; }

    [[nodiscard]] Result<void> check() const;

   private:
    Parser& parser_;
  };

  // ---- statements (parser.cc)
  /// Up to the tag `ends`, whose name is the current token then; nothing: up to the end.
  Result<Block> read_block(std::initializer_list<std::string_view> ends);
  /// Likewise, and past the tag.
  Result<Block> read_whole_block(std::string_view end);
  Result<Statement> read_statement();
  Result<Statement> read_if();
  Result<Statement> read_for();
  Result<Statement> read_set();
  Result<Statement> read_macro();
  Result<Statement> read_call_block();
  Result<Statement> read_filter_block();
  Result<Statement> read_with();
  Result<Target> read_target(bool with_member);
  Result<Target> read_single_target(bool with_member);
  Result<std::vector<Parameter>> read_parameters();
  Result<void> expect_block_end();

  // ---- expressions (parse_expressions.cc)
  enum class Conditions { with, without };
  /// One expression, or a tuple of several with commas between them.
  ExpressionResult read_tuple(Conditions conditions = Conditions::with);
  ExpressionResult read_expression(Conditions conditions = Conditions::with);
  ExpressionResult read_condition();
  ExpressionResult read_disjunction();
  ExpressionResult read_conjunction();
  ExpressionResult read_negation();
  ExpressionResult read_comparison();
  ExpressionResult read_sum();
  ExpressionResult read_concatenation();
  ExpressionResult read_product();
  ExpressionResult read_power();
  ExpressionResult read_unary(bool with_filters);
  ExpressionResult read_primary();
  ExpressionResult read_parenthesis();
  ExpressionResult read_list();
  ExpressionResult read_dict();
  ExpressionResult read_postfix(ExpressionPtr subject);
  ExpressionResult read_filters_and_tests(ExpressionPtr subject);
  ExpressionResult read_attribute(ExpressionPtr subject);
  ExpressionResult read_subscript(ExpressionPtr subject);
  ExpressionResult read_call(ExpressionPtr callee);
  /// One filter or more; `subject` may be null.
  ExpressionResult read_filters(ExpressionPtr subject, bool is_begun);
  ExpressionResult read_test(ExpressionPtr subject);
  Result<CallArguments> read_arguments();
  /// `operand { sign operand }`, from the left.
  ExpressionResult read_binaries(ExpressionResult (Parser::*operand)(),
                                 std::initializer_list<std::string_view> signs);
  Result<std::string> read_dotted_name();

  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  [[nodiscard]] const Token& ahead() const {
    return tokens_[std::min(at_ + 1, tokens_.size() - 1)];
  }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_name(std::string_view name);
  bool skip_sign(std::string_view sign);
  Result<void> expect_sign(std::string_view sign);
  Result<void> expect_name(std::string_view name);
  Result<std::string> expect_any_name();
  [[nodiscard]] Error unexpected(std::string_view wanted) const;
  NameId id_of(std::string_view name);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // around what is read
  Syntax syntax_;
  std::unordered_map<std::string, NameId> ids_;
};

/// What a token is, for messages.
std::string describe(const Token& token);

}  // namespace tinker::jinja
