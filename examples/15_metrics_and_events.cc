// What happens inside: events as they occur, and metrics for a scrape.
#include <iostream>
#include <mutex>

#include "server.h"
#include "text.h"

int main() {
  const example::Server server;
  //! [observe]
  const auto runtime = tinker::Runtime::start();
  const tinker::Metrics metrics(runtime.events());
  std::mutex mutex;
  std::map<std::string, int> seen;
  const auto subscription = runtime.events().subscribe([&](const tinker::Event& event) {
    const std::scoped_lock lock(mutex);  // sinks run on whichever thread the event happens
    ++seen[std::string(event.name)];
  });
  auto service = tinker::ServiceClient::connect(
                     {.base_url = server.url(), .api_key = server.key(), .runtime = runtime})
                     .value();
  //! [observe]
  auto sampler =
      service.create_sampling_client({.base_model = example::any_model(service)}).get().value();
  const auto prompt = tinker::ModelInput::from_tokens(example::tokens("watch "));
  for (int i = 0; i < 10; ++i) sampler.sample(prompt, {.max_tokens = 4}).get().value();

  //! [read]
  const auto snapshot = metrics.snapshot();
  std::cout << snapshot.count("http.response") << " answers\n";
  for (const auto& latency : snapshot.latencies) {
    if (latency.endpoint == "/api/v1/asample") std::cout << latency.count << " submissions timed\n";
  }
  const auto text = metrics.prometheus();
  std::cout << text.substr(0, text.find('\n')) << '\n';
  //! [read]
  const std::scoped_lock lock(mutex);
  for (const auto& [name, count] : seen) std::cout << name << ' ' << count << '\n';
}
