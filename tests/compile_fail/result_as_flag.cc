// A Result is tested on purpose, never passed on as a number or a flag.
#include "tinker/result.h"

tinker::Result<int> parse();

int main() {
  const bool parsed = parse().ok();
#ifndef CONTROL
  const bool accident = parse();
#endif
  return parsed ? 0 : 1;
}
