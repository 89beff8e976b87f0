#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tinker::base {

/// Looks up a variable of the environment, so that tests can bring their own.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// That of this process.
Environment process_environment();

/// The value of `name`; nothing when it is unset or empty, which is treated alike everywhere. An
/// empty `environment` stands for the process's own.
std::optional<std::string> variable(const Environment& environment, const char* name);

}  // namespace tinker::base
