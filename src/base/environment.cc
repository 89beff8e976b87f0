#include "base/environment.h"

#include <cstdlib>

namespace tinker::base {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in the library changes the environment.
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<std::string> variable(const Environment& environment, const char* name) {
  auto value = environment ? environment(name) : process_environment()(name);
  if (value && value->empty()) value.reset();
  return value;
}

}  // namespace tinker::base
