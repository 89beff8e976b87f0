// A future has one consumer (STYLE 5).
#include <utility>

#include "tinker/future.h"

int main() {
  auto future = tinker::Future<int>::ready(1);
  auto moved = std::move(future);
#ifndef CONTROL
  auto copied = moved;
#endif
  return moved.is_ready() ? 0 : 1;
}
