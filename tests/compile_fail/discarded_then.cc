// What a continuation makes of a result has errors of its own.
#include "tinker/future.h"

tinker::Future<int> start();

int main() {
  auto future = start();
  (void)future.then([](tinker::Result<int>) { return 1; });
#ifndef CONTROL
  future.then([](tinker::Result<int>) { return 1; });
#endif
}
