#pragma once

#include "base/strings.h"
#include "tinker/log.h"

/// `TINKER_LOG(logger, warn, "heartbeat missed ", count, " times")`: the arguments are looked at
/// only when the line is enabled.
#define TINKER_LOG(logger, level, ...)                                                \
  do {                                                                                \
    if ((logger).enabled(::tinker::LogLevel::level))                                  \
      (logger).write(::tinker::LogLevel::level, ::tinker::base::concat(__VA_ARGS__)); \
  } while (false)
