#pragma once

#include <cstddef>
#include <string_view>

#include "engine/cpu.h"
#include "tinker/local_server.h"
#include "tinker/result.h"

namespace tinker::server {

/// What a server computes with, for people.
struct EngineFacts {
  std::string_view kernels = {};    ///< "avx512bf16"
  std::string_view precision = {};  ///< "bf16"
  std::size_t threads = 0;
  std::size_t free_bytes = 0;   ///< Memory that the machine, or the container, has left.
  std::size_t limit_bytes = 0;  ///< What models and their work may take of it; 0: all.
};

/// The kernels that every model of this server runs on. Fails as `choose_cpu_path` does.
Result<engine::CpuPath> kernel_path();
/// Asked before the server starts, while no model is in memory.
Result<EngineFacts> engine_facts(const LocalServerOptions& options);

}  // namespace tinker::server
