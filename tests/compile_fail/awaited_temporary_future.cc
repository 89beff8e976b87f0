// g++ 12 destroys the arguments of a call inside a `co_await` expression twice.
#include <string>

#include "tinker/future.h"

struct Options {
  std::string name = {};
};
tinker::Future<int> start(Options options);

tinker::Future<int> increment() {
#ifndef CONTROL
  const auto value = co_await start({.name = "x"});
#else
  auto starting = start({.name = "x"});
  const auto value = co_await starting;
#endif
  co_return *value + 1;
}
