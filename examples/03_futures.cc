// Futures: start work, then wait for it, be called with it, or go on with it in a coroutine.
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <tinker/tinker.h>

using namespace std::chrono_literals;

namespace {

// Stands for any call of the library: the work is under way when it returns.
tinker::Future<int> square(const tinker::Runtime& runtime, int number) {
  tinker::Promise<int> promise(runtime.callbacks());
  auto future = promise.future();
  std::thread([promise = std::move(promise), number]() mutable {
    if (number < 0) {
      promise.set(tinker::Error{.code = tinker::ErrorCode::invalid_argument,
                                .message = std::to_string(number) + " is negative"});
    } else {
      promise.set(number * number);
    }
  }).detach();
  return future;
}

//! [coroutine]
// Both squares are under way before the first is waited for.
tinker::Future<int> sum_of_squares(tinker::Runtime runtime, int a, int b) {
  auto first = square(runtime, a);
  auto second = square(runtime, b);
  TINKER_CO_TRY(const int left, co_await first);
  TINKER_CO_TRY(const int right, co_await second);
  co_return left + right;
}
//! [coroutine]

}  // namespace

int main() {
  const auto runtime = tinker::Runtime::start();

  std::cout << "blocking: " << square(runtime, 3).get().value() << '\n';

  auto text = square(runtime, 4).then([](tinker::Result<int> result) {
    return "then: " + std::to_string(result.value());
  });
  std::cout << text.get().value() << '\n';

  std::cout << "co_await: " << sum_of_squares(runtime, 3, 4).get().value() << '\n';

  std::vector<tinker::Future<int>> many;
  for (int i = 1; i <= 5; ++i) many.push_back(square(runtime, i));
  std::cout << "when_all:";
  for (const int value : tinker::when_all(std::move(many)).get().value()) std::cout << ' ' << value;
  std::cout << '\n';

  const auto failed = sum_of_squares(runtime, 3, -4).get();
  std::cout << "an error: " << failed.error().to_string() << '\n';

  tinker::Promise<int> never;
  auto waiting = never.future();
  std::cout << "too late: " << to_string(waiting.get(1ms).error().code) << '\n';
}
