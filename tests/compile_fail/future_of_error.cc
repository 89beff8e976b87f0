// Nor can a future whose value is an Error tell success from failure.
#include "tinker/future.h"

int main() {
  auto future = tinker::Future<int>::ready(tinker::Error{});
#ifndef CONTROL
  auto ambiguous = tinker::Future<tinker::Error>::ready(tinker::Error{});
#endif
  return future.is_ready() ? 0 : 1;
}
