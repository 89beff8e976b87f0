// A program of somebody else: the headers and the library of the SDK are all it has.
#include <chrono>
#include <iostream>
#include <string>

#include <tinker/tinker.h>

namespace {

/// Options that own memory, inside a coroutine: g++ 12 destroys such an argument twice where the
/// call itself is awaited, so the future has a name. Nothing is sent, because the time is up.
tinker::Future<bool> asks_too_late(tinker::ServiceClient service, std::string model) {
  int refusals = 0;
  for (int i = 0; i < 8; ++i) {
    auto creating = service.create_sampling_client({.base_model = model});
    const auto sampler = co_await creating;
    if (!sampler.ok() && sampler.error().code == tinker::ErrorCode::deadline_exceeded) ++refusals;
  }
  co_return refusals == 8;
}

}  // namespace

int main() {
  const tinker::Result<tinker::TinkerPath> path =
      tinker::TinkerPath::parse("tinker://run-1/weights/step-10");
  if (!path) {
    std::cerr << path.error() << '\n';
    return 1;
  }
  const tinker::Result<tinker::TinkerPath> refused = tinker::TinkerPath::parse("https://run-1");

  const auto service = tinker::ServiceClient::connect(
      {.base_url = "http://127.0.0.1:1", .api_key = tinker::Secret("tml-nobody")});
  if (!service) {
    std::cerr << service.error() << '\n';
    return 1;
  }
  const auto late = asks_too_late(service->with({.deadline = std::chrono::milliseconds(0)}),
                                  std::string(100, 'm'))
                        .get();
  if (!late.value_or(false)) {
    std::cerr << "a coroutine did not get its eight refusals\n";
    return 1;
  }

  std::cout << "tinker " << tinker::version() << ": " << path->training_run_id << ' ' << path->name
            << (refused.ok() ? " accepted" : " refused") << '\n';
}
