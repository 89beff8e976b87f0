// Teaches a small instruct model a house format in half a minute: one sentence in, one label such
// as FOOD/GOOD out. Run it with SmolLM2-135M-Instruct, a GGUF file or a folder. Things and
// adjectives of the test are not in the training data.
#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include <tinker/engine.h>
#include <tinker/tinker.h>

namespace {

struct Example {
  std::string sentence;
  std::string label;
};

constexpr std::array kTopics = {"FOOD", "TRAVEL", "TECH"};
constexpr std::array kThings = {
    "soup,pizza,salad,bread,curry,cake,coffee,burger,pasta,steak",
    "hotel,flight,beach,tour,train ride,cruise,museum,hostel,road trip,airport",
    "laptop,phone,camera,printer,tablet,keyboard,router,headset,monitor,smartwatch"};
constexpr auto kGood =
    "wonderful,excellent,great,lovely,amazing,superb,fantastic,perfect,splendid,pleasant,brilliant,"
    "good,delightful,outstanding,terrific,marvelous";
constexpr auto kBad =
    "terrible,awful,horrible,poor,dreadful,bad,disgusting,boring,broken,disappointing,nasty,"
    "useless,miserable,lousy,appalling,pathetic";
constexpr std::array kPatterns = {"The {x} was {a}.",
                                  "What a {a} {x}!",
                                  "I found the {x} {a} and told my friends about it.",
                                  "My sister says the {x} is {a}.",
                                  "We had a {a} {x} yesterday."};
// Of each topic and of each kind; the test has the others.
constexpr std::size_t kTrainedThings = 8;
constexpr std::size_t kTrainedAdjectives = 12;

std::vector<std::string> words(const char* list) {
  std::vector<std::string> out;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

std::string sentence(std::string pattern, const std::string& thing, const std::string& adjective) {
  pattern.replace(pattern.find("{x}"), 3, thing);
  return pattern.replace(pattern.find("{a}"), 3, adjective);
}

/// Things with adjectives, each pair in one pattern: all to train on, or every second of the
/// others. Says how many have which label.
std::vector<Example> examples(bool is_test) {
  std::vector<Example> out;
  std::map<std::string, int> counts;
  const auto good = words(kGood);
  const auto bad = words(kBad);
  for (std::size_t topic = 0; topic < kTopics.size(); ++topic) {
    const auto things = words(kThings[topic]);
    for (std::size_t t = 0; t < things.size(); ++t) {
      for (std::size_t a = 0; a < good.size(); ++a) {
        if ((t >= kTrainedThings) != is_test || (a >= kTrainedAdjectives) != is_test) continue;
        if (is_test && (t + a) % 2 != 0) continue;
        for (const bool is_good : {true, false}) {
          const char* const pattern = kPatterns[out.size() % kPatterns.size()];
          out.push_back({.sentence = sentence(pattern, things[t], is_good ? good[a] : bad[a]),
                         .label = std::string(kTopics[topic]) + (is_good ? "/GOOD" : "/BAD")});
          ++counts[out.back().label];
        }
      }
    }
  }
  std::cout << out.size() << (is_test ? " to test:" : " to train:");
  for (const auto& [label, count] : counts) std::cout << ' ' << count << ' ' << label;
  std::cout << '\n';
  return out;
}

using Tokens = std::vector<std::int32_t>;

/// What the chat format says itself: here "<|im_end|>" means the special token.
void append_markup(const tinker::Tokenizer& tokenizer, const char* text, Tokens& out) {
  std::ranges::copy(tokenizer.encode(text, {.add_special_tokens = false, .parse_special = true}),
                    std::back_inserter(out));
}

/// What a person said: there "<|im_end|>" is ten characters, and ends no turn.
void append_text(const tinker::Tokenizer& tokenizer, const std::string& text, Tokens& out) {
  std::ranges::copy(tokenizer.encode(text, {.add_special_tokens = false}), std::back_inserter(out));
}

/// A chat of one question, up to where the answer begins.
Tokens prompt(const tinker::Tokenizer& tokenizer, const std::string& question) {
  Tokens out;
  append_markup(tokenizer, "<|im_start|>user\n", out);
  append_text(tokenizer, question, out);
  append_markup(tokenizer, "<|im_end|>\n<|im_start|>assistant\n", out);
  return out;
}

/// Question and answer, with a loss on the answer only.
tinker::Datum datum(const tinker::Tokenizer& tokenizer, const Example& example) {
  auto text = prompt(tokenizer, example.sentence);
  const std::size_t asked = text.size();
  append_text(tokenizer, example.label, text);
  append_markup(tokenizer, "<|im_end|>", text);
  return tinker::Datum::next_token(std::move(text), asked);
}

/// How many of the sentences get their label; shows four of them.
std::size_t evaluate(const tinker::Engine& engine,
                     const tinker::Tokenizer& tokenizer,
                     const std::vector<Example>& items,
                     const tinker::AdapterSnapshot& from) {
  std::vector<tinker::Future<tinker::SampleResponse>> answers;  // all at the same time
  for (const auto& item : items) {
    auto asked = tinker::ModelInput::from_tokens(prompt(tokenizer, item.sentence));
    answers.push_back(
        engine.sample_async(std::move(asked), {.max_tokens = 12, .temperature = 0}, from));
  }
  std::size_t right = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto answer = answers[i].get().value();
    const auto text = tokenizer.decode(answer.sequences[0].tokens, {.skip_special_tokens = true});
    if (text == items[i].label) ++right;
    if (i % 7 == 0) std::cout << "  " << items[i].sentence << " -> " << text << '\n';
  }
  std::cout << right << " of " << items.size() << " right\n";
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: 20_local_sft MODEL\n";
    return 2;
  }
  const auto engine = tinker::Engine::load(argv[1]).value();
  const auto tokenizer = tinker::Tokenizer::load(argv[1]).value();
  const auto trainer =
      engine.create_trainer({.rank = 16, .seed = 1, .train_unembed = false}).value();
  const auto data = examples(false);
  const auto test = examples(true);
  evaluate(engine, tokenizer, test, {});

  constexpr int kSteps = 30;
  tinker::Rng rng(1);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<tinker::Datum> batch;
    for (int i = 0; i < 8; ++i) batch.push_back(datum(tokenizer, data[rng.below(data.size())]));
    const auto estimated = trainer.memory_needed(batch).value();
    const auto output = trainer.forward_backward(batch, tinker::LossFn::cross_entropy).value();
    if (step == 0) {
      std::cout << "step: " << (trainer.memory_used().value() >> 20U) << " MiB used, "
                << (estimated >> 20U) << " MiB estimated\n";
    }
    trainer.optim_step({.learning_rate = 1e-3 * (1.0 - static_cast<double>(step) / kSteps)})
        .value();
    if (step % 10 == 0) std::cout << "step " << step << ": loss " << output.loss().value() << '\n';
  }
  return evaluate(engine, tokenizer, test, trainer.snapshot().value()) >= 22 ? 0 : 1;
}
