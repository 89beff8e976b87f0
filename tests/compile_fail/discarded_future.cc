// A failure that comes later is not overlooked either.
#include "tinker/future.h"

tinker::Future<int> start();

int main() {
  (void)start();
#ifndef CONTROL
  start();
#endif
}
