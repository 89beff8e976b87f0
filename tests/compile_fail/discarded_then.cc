// What a continuation makes of a result has errors of its own.
#include "tinker/future.h"

tinker::Future<int> start();

int main() {
  (void)start().then([](tinker::Result<int>) { return 1; });
#ifndef CONTROL
  start().then([](tinker::Result<int>) { return 1; });
#endif
}
