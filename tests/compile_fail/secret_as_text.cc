// Every place that reads a secret can be found by the name expose().
#include <string>

#include "tinker/secret.h"

int main() {
  const tinker::Secret secret("key");
  const std::string on_purpose = secret.expose();
#ifndef CONTROL
  const std::string by_accident = secret;
#endif
  return on_purpose.empty() ? 1 : 0;
}
