// All renderers beside the official ones: prompts, weights, examples, what is refused, and parsed
// responses. An entry need not have all that is compared here; what is not known here is ignored.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/strings.h"
#include "render/golden_data.h"
#include "tinker/renderer.h"
#include "tinker/training_data.h"

namespace tinker::testing {
namespace {

using base::concat;
using wire::JsonView;
using Tokens = std::vector<std::int32_t>;

Tokens tokens_of(JsonView list) {
  Tokens out;
  EXPECT_FALSE(list.append_to(out));
  return out;
}

std::vector<float> floats_of(JsonView list) {
  std::vector<float> out;
  EXPECT_FALSE(list.append_to(out));
  return out;
}

std::string text_of(JsonView entry, std::string_view name) {
  const auto member = entry.member(name);
  return member ? std::string(member->string()) : std::string();
}

std::optional<std::chrono::year_month_day> date_of(JsonView entry) {
  const std::string text = text_of(entry, "current_date");
  if (text.size() != 10) return std::nullopt;
  const auto number = [&text](std::size_t from, std::size_t count) {
    int out = 0;
    std::from_chars(text.data() + from, text.data() + from + count, out);
    return out;
  };
  return std::chrono::year(number(0, 4)) / number(5, 2) / number(8, 2);
}

RendererOptions options_of(JsonView entry, const Tokenizer& tokenizer) {
  RendererOptions out = {.date = date_of(entry),
                         .eos_token = eos_token_of(text_of(entry, "tokenizer"), tokenizer)};
  if (const auto effort = entry.member("effort")) out.effort = effort->number();
  return out;
}

/// One entry, and the renderer it is about.
class Comparison {
 public:
  Comparison(const Renderer& renderer, JsonView entry, std::string name)
      : renderer_(renderer), entry_(entry), name_(std::move(name)) {}

  void run() {
    if (!read_messages()) return;
    compare_properties();
    compare_declaration();
    if (messages_.empty()) return;
    compare_prompt();
    compare_other_prompts();
    for_each_mode("supervised", [this](TrainOnWhat mode, JsonView expected) {
      compare_supervised(mode, expected);
    });
    for_each_mode("examples", [this](TrainOnWhat mode, JsonView expected) {
      compare_examples(mode, expected);
    });
    compare_datum();
    compare_round_trip();
  }

  /// A response and what it was parsed to.
  void compare_response(const Tokens& tokens, JsonView expected) {
    const auto parsed = renderer_.parse_response(tokens);
    if (is_refused(expected, "parse_response", "error", parsed)) return;
    if (!parsed.ok()) return;
    auto message = parsed->message;
    auto wanted = Message::from_json(json_of(expected.member("message").value())).value();
    for (auto* calls : {&message.unparsed_tool_calls, &wanted.unparsed_tool_calls}) {
      for (auto& call : *calls) forget_json_error(call.error);
    }
    if (message != wanted) {
      fail("parse_response",
           concat("\n  found    ", shown(message), "\n  expected ", shown(wanted)));
    }
    const auto termination = text_of(expected, "termination");
    if (to_string(parsed->termination) != termination) {
      fail("termination", concat("found ", to_string(parsed->termination), ", not ", termination));
    }
  }

 private:
  void fail(std::string_view what, std::string_view why) const {
    ADD_FAILURE() << name_ << ", " << what << ": " << why;
  }

  /// Whether the entry says that this is refused; a failure unless it is so.
  template <typename T>
  bool is_refused(JsonView holder,
                  std::string_view what,
                  std::string_view member,
                  const Result<T>& result) const {
    const bool expects_error = holder.member(member).has_value();
    if (expects_error && result.ok()) {
      fail(what, concat("is accepted; the cookbook says: ", text_of(holder, member)));
    } else if (!expects_error && !result.ok()) {
      fail(what, concat("is refused: ", result.error().to_string()));
    }
    return expects_error;
  }

  /// Versions of Python word it differently what is wrong with a JSON text.
  static void forget_json_error(std::string& error) {
    constexpr std::string_view kPrefix = "Invalid JSON: ";
    if (error.starts_with(kPrefix)) error = kPrefix;
  }

  static std::string shown(const Message& message);
  static std::string shown(const Json& json);

  bool read_messages() {
    const auto list = entry_.member("messages");
    bool is_read = true;
    if (!list) return is_read;
    list->for_each_element([&](JsonView view) {
      auto message = Message::from_json(json_of(view));
      if (message.ok()) {
        messages_.push_back(*std::move(message));
        return true;
      }
      is_read = false;
      // Otherwise everything is refused, as it should be.
      const bool expects_prompt = entry_.member("generation_prompt_tokens").has_value();
      if (expects_prompt) fail("messages", message.error().to_string());
      return false;
    });
    if (is_read && entry_.member("error")) {
      const auto example = renderer_.build_supervised_example(messages_);
      is_refused(entry_, "build_supervised_example", "error", example);
      return false;
    }
    return is_read;
  }

  void compare_properties() const {
    if (const auto flag = entry_.member("has_extension_property")) {
      if (flag->boolean() != renderer_.has_extension_property()) fail("extension property", "no");
    }
    const auto stop = entry_.member("stop");
    if (!stop) return;
    const auto ours = renderer_.stop();
    const auto* const ids = std::get_if<Tokens>(&ours);
    const Json expected = json_of(*stop);
    Json::Array found;
    if (ids) {
      for (const auto id : *ids) found.emplace_back(id);
    } else {
      for (const auto& text : std::get<std::vector<std::string>>(ours)) found.emplace_back(text);
    }
    if (Json(found) != expected) fail("stop", "differs");
  }

  void compare_declaration() const {
    const auto expected = entry_.member("tool_declaration");
    if (!expected && !entry_.member("tool_declaration_error")) return;
    std::vector<ToolSpec> tools;
    if (const auto list = entry_.member("tools")) {
      list->for_each_element([&tools](JsonView tool) {
        tools.push_back(ToolSpec::from_json(json_of(tool)).value());
        return true;
      });
    }
    const auto found =
        renderer_.create_conversation_prefix_with_tools(tools, text_of(entry_, "system_prompt"));
    if (is_refused(entry_, "tools", "tool_declaration_error", found) || !found.ok()) return;
    std::vector<Message> wanted;
    expected->for_each_element([&wanted](JsonView message) {
      wanted.push_back(Message::from_json(json_of(message)).value());
      return true;
    });
    for (std::size_t i = 0; i < std::max(found->size(), wanted.size()); ++i) {
      const auto ours = i < found->size() ? shown((*found)[i]) : "nothing";
      const auto theirs = i < wanted.size() ? shown(wanted[i]) : "nothing";
      if (ours != theirs) fail("tools", concat("\n  found    ", ours, "\n  expected ", theirs));
    }
  }

  void compare_prompt() {
    auto given = messages_;
    given.pop_back();
    const auto prompt = renderer_.build_generation_prompt(std::move(given));
    const auto expected = entry_.member("generation_prompt_tokens");
    if (!expected && !entry_.member("generation_prompt_error")) return;
    if (is_refused(entry_, "prompt", "generation_prompt_error", prompt) || !prompt.ok()) return;
    prompt_ = prompt->to_tokens().value();
    compare_tokens("prompt", prompt_, tokens_of(*expected));
  }

  /// Prompts for other roles, and with words put into the model's mouth: {role, prefill, tokens}.
  void compare_other_prompts() const {
    const auto list = entry_.member("prompts");
    if (!list) return;
    list->for_each_element([this](JsonView expected) {
      const auto role = text_of(expected, "role");
      const auto prefill = text_of(expected, "prefill");
      const auto what = concat("prompt of ", role, " with '", prefill, "'");
      const auto prompt = renderer_.build_generation_prompt(messages_, role, prefill);
      if (!is_refused(expected, what, "error", prompt) && prompt.ok()) {
        const auto tokens = tokens_of(expected.member("tokens").value());
        compare_tokens(what, prompt->to_tokens().value(), tokens);
      }
      return true;
    });
  }

  void for_each_mode(std::string_view member,
                     const std::function<void(TrainOnWhat, JsonView)>& compare) const {
    const auto modes = entry_.member(member);
    if (!modes) return;
    modes->for_each_member([&](std::string_view name, JsonView expected) {
      compare(parse_train_on_what(name).value(), expected);
      return true;
    });
  }

  /// In the mode `customized`, where no message says so, every second one is trained.
  [[nodiscard]] std::vector<Message> messages_for(TrainOnWhat mode) const {
    auto out = messages_;
    const bool says = std::ranges::any_of(
        out, [](const Message& message) { return message.trainable.has_value(); });
    if (mode != TrainOnWhat::customized || says) return out;
    for (std::size_t i = 0; i < out.size(); ++i) out[i].trainable = i % 2 == 1;
    return out;
  }

  void compare_supervised(TrainOnWhat mode, JsonView expected) {
    const std::string what = concat("supervised.", to_string(mode));
    const auto example = renderer_.build_supervised_example(messages_for(mode), mode);
    if (is_refused(expected, what, "error", example) || !example.ok()) return;
    compare_example(what, *example, expected);
    if (mode == TrainOnWhat::last_assistant_message) observed_ = *example;
  }

  void compare_examples(TrainOnWhat mode, JsonView expected) const {
    const std::string what = concat("examples.", to_string(mode));
    const auto examples = renderer_.build_supervised_examples(messages_, mode);
    if (expected.kind() == JsonView::Kind::object) {
      is_refused(expected, what, "error", examples);
      return;
    }
    if (!examples.ok()) return fail(what, concat("is refused: ", examples.error().to_string()));
    std::vector<JsonView> wanted;
    expected.for_each_element([&wanted](JsonView example) {
      wanted.push_back(example);
      return true;
    });
    if (wanted.size() != examples->size()) {
      return fail(what, concat(examples->size(), " examples, expected ", wanted.size()));
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      compare_example(concat(what, "[", i, "]"), (*examples)[i], wanted[i]);
    }
  }

  void compare_example(std::string_view what,
                       const SupervisedExample& example,
                       JsonView expected) const {
    const Tokens tokens = example.input.to_tokens().value();
    compare_tokens(what, tokens, tokens_of(expected.member("tokens").value()));
    const auto weights = floats_of(expected.member("weights").value());
    if (tokens.size() != example.weights.size()) fail(what, "has not a weight for each token");
    compare_weights(what, tokens, example.weights, weights);
  }

  /// What training is given: without the last token, aligned with the next one, of the sum 1.
  void compare_datum() const {
    const auto expected = entry_.member("datum_mean");
    if (!observed_ || (!expected && !entry_.member("datum_error"))) return;
    const auto datum = to_datum(*observed_, {.reduction = WeightReduction::mean});
    if (is_refused(entry_, "datum_mean", "datum_error", datum) || !datum.ok()) return;
    const auto input = datum->model_input.to_tokens().value();
    compare_tokens("datum_mean.input", input, tokens_of(expected->member("input").value()));
    const auto& ids = datum->loss_fn_inputs.at("target_tokens").ints();
    const Tokens targets(ids.begin(), ids.end());
    compare_tokens(
        "datum_mean.target_tokens", targets, tokens_of(expected->member("target_tokens").value()));
    const auto& weights = datum->loss_fn_inputs.at("weights").floats();
    compare_weights("datum_mean",
                    targets,
                    {weights.begin(), weights.end()},
                    floats_of(expected->member("weights").value()));
  }

  /// What the example has behind the prompt, parsed.
  void compare_round_trip() {
    if (!observed_ || !entry_.member("generation_prompt_tokens")) return;
    const Tokens tokens = observed_->input.to_tokens().value();
    const bool is_continued = tokens.size() >= prompt_.size() &&
                              std::equal(prompt_.begin(), prompt_.end(), tokens.begin());
    const auto flag = entry_.member("observation_equals_generation_prompt");
    if (flag && flag->boolean() != is_continued) {
      fail("example", is_continued ? "begins with the prompt" : "does not begin with the prompt");
    }
    const auto expected = entry_.member("parse_roundtrip");
    if (!expected || !is_continued) return;
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(prompt_.size());
    compare_response({begin, tokens.end()}, *expected);
  }

  [[nodiscard]] std::string decoded(const Tokens& tokens, std::size_t from, std::size_t to) const {
    to = std::min(to, tokens.size());
    from = std::min(from, to);
    return renderer_.tokenizer().decode(std::span(tokens).subspan(from, to - from));
  }

  void compare_tokens(std::string_view what, const Tokens& found, const Tokens& expected) const {
    if (found == expected) return;
    const auto at =
        static_cast<std::size_t>(std::ranges::mismatch(found, expected).in1 - found.begin());
    constexpr std::size_t kContext = 16;
    fail(what,
         concat("differs from token ",
                at,
                " on, behind '",
                decoded(found, at - std::min(at, kContext), at),
                "'\n  found    '",
                decoded(found, at, at + kContext),
                "'\n  expected '",
                decoded(expected, at, at + kContext),
                "'"));
  }

  void compare_weights(std::string_view what,
                       const Tokens& tokens,
                       const std::vector<float>& found,
                       const std::vector<float>& expected) const {
    constexpr float kTolerance = 1e-6F;  // the entries are rounded
    if (found.size() != expected.size()) return fail(what, "has another number of weights");
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (std::abs(found[i] - expected[i]) <= kTolerance) continue;
      return fail(what,
                  concat("token ",
                         i,
                         " has the weight ",
                         found[i],
                         ", expected ",
                         expected[i],
                         ": '",
                         decoded(tokens, i - std::min<std::size_t>(i, 8), i),
                         "' >>> '",
                         decoded(tokens, i, i + 8),
                         "'"));
    }
  }

  const Renderer& renderer_;
  JsonView entry_;
  std::string name_;
  std::vector<Message> messages_ = {};
  Tokens prompt_ = {};
  std::optional<SupervisedExample> observed_ = {};
};

std::string Comparison::shown(const Message& message) {
  return shown(to_json(message));
}

std::string Comparison::shown(const Json& json) {
  if (const auto* text = json.get_if<std::string>()) return concat("'", *text, "'");
  std::string out;
  if (const auto* list = json.get_if<Json::Array>()) {
    for (const auto& element : *list) out += concat(out.empty() ? "" : ", ", shown(element));
    return concat("[", out, "]");
  }
  if (const auto* members = json.get_if<Json::Object>()) {
    for (const auto& [name, value] : *members) {
      out += concat(out.empty() ? "" : ", ", name, ": ", shown(value));
    }
    return concat("{", out, "}");
  }
  return json.is_null() ? "null" : "a value";
}

/// Runs `compare` on each entry whose tokenizer is there; the number of those.
std::size_t compare_all(const std::vector<GoldenFile>& files,
                        std::string_view name,
                        const std::function<void(const Renderer&, JsonView, std::string)>& compare,
                        std::set<std::string>& missing) {
  std::size_t count = 0;
  for (const auto& file : files) {
    for (const auto& entry : file.entries_of(name)) {
      const std::string model = text_of(entry, "tokenizer");
      const auto tokenizer = tokenizer_of(model);
      if (!tokenizer) {
        missing.insert(model);
        continue;
      }
      const auto renderer = Renderer::create(name, *tokenizer, options_of(entry, *tokenizer));
      if (!renderer.ok()) {
        ADD_FAILURE() << renderer.error().to_string();
        continue;
      }
      const std::string text = text_of(entry, "text");
      const std::string conversation = text_of(entry, "conversation");
      compare(*renderer,
              entry,
              conversation.empty() ? concat(name, ", '", text, "'")
                                   : concat(name, ", ", conversation, ", ", model));
      ++count;
    }
  }
  return count;
}

class RenderGolden : public ::testing::TestWithParam<std::string_view> {};

TEST_P(RenderGolden, EqualsTheOfficialRenderer) {
  std::set<std::string> missing;
  const auto conversations = compare_all(
      conversation_goldens(),
      GetParam(),
      [](const Renderer& renderer, JsonView entry, std::string name) {
        Comparison(renderer, entry, std::move(name)).run();
      },
      missing);
  const auto responses = compare_all(
      response_goldens(),
      GetParam(),
      [](const Renderer& renderer, JsonView entry, std::string name) {
        Comparison(renderer, entry, std::move(name))
            .compare_response(tokens_of(entry.member("tokens").value()), entry);
      },
      missing);
  std::cout << conversations << " conversations, " << responses << " responses\n";
  for (const auto& model : missing) {
    std::cout << "skipped the entries of " << model << ": no folder " << tokenizer_folder(model)
              << "\n";
  }
  if (conversations + responses > 0) return;
  if (missing.empty()) {
    GTEST_SKIP() << "no entries: TINKER_RENDERER_GOLDENS names a file of them";
  }
  GTEST_SKIP() << "no tokenizer of " << *missing.begin()
               << ": TINKER_TOKENIZERS names their folder";
}

INSTANTIATE_TEST_SUITE_P(All,
                         RenderGolden,
                         ::testing::ValuesIn(renderer_names()),
                         [](const auto& renderer) { return std::string(renderer.param); });

TEST(RenderGolden, ReadsTheFilesThatAreNamed) {
  for (const char* name : {"TINKER_RENDERER_GOLDENS", "TINKER_RENDERER_PARSES"}) {
    const char* const path = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    EXPECT_TRUE(path == nullptr || std::filesystem::is_regular_file(path)) << name << ": " << path;
  }
}

TEST(RenderGolden, KnowsEveryRendererOfTheFiles) {
  const auto names = renderer_names();
  for (const auto* files : {&conversation_goldens(), &response_goldens()}) {
    for (const auto& file : *files) {
      for (const auto& name : file.renderers()) {
        const bool is_known = std::ranges::find(names, name) != names.end();
        EXPECT_TRUE(is_known) << name << " of " << file.path;
      }
    }
  }
}

}  // namespace
}  // namespace tinker::testing
