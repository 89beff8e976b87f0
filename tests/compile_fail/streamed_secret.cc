// A secret does not reach a log by accident (STYLE 8).
#include <iostream>

#include "tinker/secret.h"

int main() {
  const tinker::Secret secret("key");
  std::cout << secret.empty();
#ifndef CONTROL
  std::cout << secret;
#endif
}
