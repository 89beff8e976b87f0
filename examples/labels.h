#pragma once

#include <array>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

/// Sentences about things, and the labels that 20_sft teaches: a topic, and GOOD or BAD.
namespace labels {

struct Words {
  std::array<const char*, 3> things;  // of each topic
  const char* good;
  const char* bad;
};
inline constexpr std::array kTopics = {"FOOD", "TRAVEL", "TECH"};
inline constexpr Words kTrain = {
    .things = {"soup,pizza,salad,bread,curry,cake,coffee,burger",
               "hotel,flight,beach,tour,train ride,cruise,museum,hostel",
               "laptop,phone,camera,printer,tablet,keyboard,router,headset"},
    .good =
        "wonderful,excellent,great,lovely,amazing,superb,fantastic,perfect,splendid,pleasant,"
        "brilliant,good",
    .bad =
        "terrible,awful,horrible,poor,dreadful,bad,disgusting,boring,broken,disappointing,"
        "nasty,useless"};
inline constexpr Words kTest = {
    .things = {"pasta,steak", "road trip,airport", "monitor,smartwatch"},
    .good = "delightful,outstanding,terrific,marvelous",
    .bad = "miserable,lousy,appalling,pathetic"};
inline constexpr std::array kPatterns = {"The {x} was {a}.",
                                         "What a {a} {x}!",
                                         "I found the {x} {a} and told my friends about it.",
                                         "My sister says the {x} is {a}.",
                                         "We had a {a} {x} yesterday."};

struct Example {
  std::string sentence;
  std::string label;
};

inline std::vector<std::string> split(const char* list) {
  std::vector<std::string> out;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

/// Every thing with every n-th adjective of both kinds, each pair in one pattern.
inline std::vector<Example> examples(const Words& words, std::size_t n) {
  std::vector<Example> out;
  const auto add = [&](const std::string& thing, const std::string& adjective, std::string label) {
    std::string sentence = kPatterns[out.size() % kPatterns.size()];
    sentence.replace(sentence.find("{x}"), 3, thing);
    sentence.replace(sentence.find("{a}"), 3, adjective);
    out.push_back({.sentence = std::move(sentence), .label = std::move(label)});
  };
  const auto good = split(words.good);
  const auto bad = split(words.bad);
  for (std::size_t topic = 0; topic < kTopics.size(); ++topic) {
    const auto things = split(words.things[topic]);
    for (std::size_t t = 0; t < things.size(); ++t) {
      for (std::size_t a = t % n; a < good.size(); a += n) {
        add(things[t], good[a], std::string(kTopics[topic]) + "/GOOD");
        add(things[t], bad[a], std::string(kTopics[topic]) + "/BAD");
      }
    }
  }
  return out;
}

/// 576 sentences to train on; 24 others, of which every second is GOOD and every second BAD, to
/// test with.
inline std::vector<Example> train() {
  return examples(kTrain, 1);
}
inline std::vector<Example> test() {
  return examples(kTest, 2);
}

}  // namespace labels
