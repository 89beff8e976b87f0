#include "engine/machine_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace tinker::engine {

std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::size_t kibibytes = 0;
  std::string unit;
  while (file >> name >> kibibytes >> unit) {
    if (name == "MemAvailable:") return kibibytes << 10U;
  }
  return std::numeric_limits<std::size_t>::max() / 2;
}

}  // namespace tinker::engine
