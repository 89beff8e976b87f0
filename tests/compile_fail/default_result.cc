// A Result holds a value or an error from the start (STYLE 4).
#include "tinker/result.h"

int main() {
  const tinker::Result<int> result = 1;
#ifndef CONTROL
  const tinker::Result<int> neither;
#endif
  return *result;
}
