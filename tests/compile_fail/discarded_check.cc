// Nor that of a call whose success has no value.
#include "tinker/result.h"

tinker::Result<void> check();

int main() {
  (void)check();
#ifndef CONTROL
  check();
#endif
}
