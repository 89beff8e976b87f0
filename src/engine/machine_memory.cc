#include "engine/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tinker::engine {
namespace {

namespace fs = std::filesystem;

/// The number behind a name, in a file of such lines.
std::optional<std::size_t> find(const fs::path& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  std::size_t value = 0;
  std::string rest;
  while (file >> name >> value && std::getline(file, rest)) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

/// The number that a file consists of; "max" is none.
std::optional<std::size_t> number(const fs::path& path) {
  std::ifstream file(path);
  std::size_t out = 0;
  if (file >> out) return out;
  return std::nullopt;
}

}  // namespace

std::size_t available_memory(const fs::path& root) {
  std::size_t out = std::numeric_limits<std::size_t>::max() / 2;
  if (const auto kibibytes = find(root / "proc/meminfo", "MemAvailable:")) out = *kibibytes << 10U;
  // What a control group may have, in both versions of their files. Of what it has, pages of files
  // that nobody used lately are given back when others need them.
  struct Names {
    const char* folder;
    const char* limit;
    const char* used;
    const char* cached;
  };
  for (const auto& names : {Names{.folder = "sys/fs/cgroup",
                                  .limit = "memory.max",
                                  .used = "memory.current",
                                  .cached = "inactive_file"},
                            Names{.folder = "sys/fs/cgroup/memory",
                                  .limit = "memory.limit_in_bytes",
                                  .used = "memory.usage_in_bytes",
                                  .cached = "total_inactive_file"}}) {
    const auto folder = root / names.folder;
    const auto limit = number(folder / names.limit);
    const auto used = number(folder / names.used);
    if (!limit || !used) continue;
    const std::size_t cached = find(folder / "memory.stat", names.cached).value_or(0);
    const std::size_t kept = *used - std::min(*used, cached);
    out = std::min(out, *limit - std::min(*limit, kept));
  }
  return out;
}

}  // namespace tinker::engine
