// A program of somebody else: the headers and the library of the SDK are all it has.
#include <iostream>

#include <tinker/tinker.h>

int main() {
  const tinker::Result<tinker::TinkerPath> path =
      tinker::TinkerPath::parse("tinker://run-1/weights/step-10");
  if (!path) {
    std::cerr << path.error().message << '\n';
    return 1;
  }
  const tinker::Result<tinker::TinkerPath> refused = tinker::TinkerPath::parse("https://run-1");
  const auto service = tinker::ServiceClient::connect(
      {.base_url = "http://server.test", .api_key = tinker::Secret("tml-key")});
  if (!service) {
    std::cerr << service.error().message << '\n';
    return 1;
  }

  std::cout << "tinker " << tinker::version() << ": " << path->training_run_id << ' ' << path->name
            << (refused.ok() ? " accepted" : " refused") << '\n';
}
