// Nobody overlooks a failure.
#include "tinker/result.h"

tinker::Result<int> parse();

int main() {
  (void)parse();
#ifndef CONTROL
  parse();
#endif
}
