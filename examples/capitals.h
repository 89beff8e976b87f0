#pragma once

#include <sstream>
#include <string>
#include <vector>

/// Countries and the capitals that 21_rl asks for.
namespace capitals {

inline constexpr auto kTrain =
    "France Paris, Germany Berlin, Italy Rome, Spain Madrid, Japan Tokyo, China Beijing, "
    "Russia Moscow, Egypt Cairo, Canada Ottawa, Greece Athens, Poland Warsaw, Sweden Stockholm, "
    "Norway Oslo, Portugal Lisbon";
inline constexpr auto kTest =
    "Austria Vienna, Belgium Brussels, Denmark Copenhagen, Finland Helsinki, Ireland Dublin, "
    "Hungary Budapest, Turkey Ankara, India Delhi, Cuba Havana, Peru Lima, Kenya Nairobi, "
    "Thailand Bangkok";

struct Question {
  std::string text;
  std::string capital;
};

inline std::vector<Question> questions(const char* list) {
  std::vector<Question> out;
  std::istringstream in(list);
  for (std::string country, capital; in >> country >> capital;) {
    std::erase(capital, ',');
    out.push_back({.text = "What is the capital of " + country + "?", .capital = capital});
  }
  return out;
}

inline std::vector<Question> train() {
  return questions(kTrain);
}
inline std::vector<Question> test() {
  return questions(kTest);
}

}  // namespace capitals
