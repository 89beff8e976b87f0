#include "engine/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <unistd.h>

#include "base/strings.h"

namespace tinker::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max() / 2;

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

/// One version of control groups.
struct Groups {
  const char* controller;  // as /proc/self/cgroup names it; the newer version has no names there
  const char* folder;
  const char* limit;
  const char* used;
  const char* cached;
};
constexpr Groups kNewer = {.controller = "",
                           .folder = "sys/fs/cgroup",
                           .limit = "memory.max",
                           .used = "memory.current",
                           .cached = "inactive_file"};
constexpr Groups kOlder = {.controller = "memory",
                           .folder = "sys/fs/cgroup/memory",
                           .limit = "memory.limit_in_bytes",
                           .used = "memory.usage_in_bytes",
                           .cached = "total_inactive_file"};

/// The group of this process below the root, of a line such as "4:cpu,memory:/slice/job".
fs::path own_group(const fs::path& root, std::string_view controller) {
  const auto wanted = base::concat(',', controller, ',');
  std::ifstream file(root / "proc/self/cgroup");
  std::string controllers;
  std::string path;
  while (std::getline(file, path, ':') && std::getline(file, controllers, ':') &&
         std::getline(file, path)) {
    if (base::concat(',', controllers, ',').find(wanted) != std::string::npos)
      return fs::path(path).relative_path();
  }
  return {};
}

/// What a group may still have. Of what it has, pages of files that nobody used lately are given
/// back when others need them.
std::size_t left(const fs::path& group, const Groups& names) {
  const auto limit = number(group / names.limit);
  const auto used = number(group / names.used);
  if (!limit || !used) return kUnlimited;
  const std::size_t cached = find(group / "memory.stat", names.cached).value_or(0);
  const std::size_t kept = *used - std::min(*used, cached);
  return *limit - std::min(*limit, kept);
}

}  // namespace

std::size_t available_memory(const fs::path& root) {
  std::size_t out = kUnlimited;
  if (const auto kibibytes = find(root / "proc/meminfo", "MemAvailable:")) out = *kibibytes << 10U;
  // Every group from the root to that of the process has a limit of its own. In a container, the
  // root may be that of the container, and the path one that is not seen from inside.
  for (const auto& names : {kNewer, kOlder}) {
    auto group = root / names.folder;
    out = std::min(out, left(group, names));
    for (const auto& name : own_group(root, names.controller)) {
      if (name == "..") break;  // outside of what is seen here
      group /= name;
      out = std::min(out, left(group, names));
    }
  }
  return out;
}

std::size_t resident_memory(const fs::path& root) {
  std::ifstream file(root / "proc/self/statm");
  std::size_t mapped = 0;
  std::size_t resident = 0;  // pages
  if (!(file >> mapped >> resident)) return 0;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Result<void> check_room(std::string_view what, std::size_t needed, std::size_t room) {
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  if (needed <= room) return {};
  return Error{
      .code = ErrorCode::invalid_argument,
      .message = base::concat(
          what, " needs ", (needed + kMiB - 1) / kMiB, " MiB, and ", room / kMiB, " MiB are left")};
}

}  // namespace tinker::engine
