// An Error as a value could not be told from a failure.
#include "tinker/result.h"

int main() {
  const tinker::Result<int> result = tinker::Error{};
#ifndef CONTROL
  const tinker::Result<tinker::Error> ambiguous = tinker::Error{};
#endif
  return result.ok() ? 1 : 0;
}
