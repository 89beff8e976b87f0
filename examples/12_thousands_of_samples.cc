// Thousands of samples: hand them all over, take results as they come. The client keeps within the
// limits of the server; what fails for a while is repeated.
#include <atomic>
#include <iostream>
#include <map>

#include "server.h"
#include "text.h"

int main() {
  constexpr int kPrompts = 2000;
  const example::Server server;
  auto service = server.connect();
  auto sampler =
      service.create_sampling_client({.base_model = example::any_model(service)}).get().value();

  //! [all]
  std::atomic<int> done = 0;
  std::vector<tinker::Future<std::string>> answers;
  for (int i = 0; i < kPrompts; ++i) {
    const auto prompt = tinker::ModelInput::from_tokens({static_cast<std::int32_t>('a' + i % 26)});
    auto sample = sampler.sample(prompt, {.max_tokens = 4, .seed = i});
    answers.push_back(std::move(sample).then(
        [&done](tinker::Result<tinker::SampleResponse> answer) -> tinker::Result<std::string> {
          ++done;  // on the callback thread, as each arrives
          if (!answer) return answer.error();
          return example::text(answer->sequences[0].tokens);
        }));
  }
  std::map<std::string, int> failures;
  std::size_t letters = 0;
  for (auto& answer : answers) {
    const auto text = answer.get();
    if (text) {
      letters += text->size();
    } else {
      ++failures[std::string(tinker::to_string(text.error().code))];
    }
  }
  //! [all]
  std::cout << done << " samples, " << letters << " letters, " << failures.size() << " failures\n";
}
