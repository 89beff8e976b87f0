#include "server/engine_facts.h"

#include "base/environment.h"
#include "engine/machine_memory.h"
#include "engine/thread_pool.h"

namespace tinker::server {

Result<engine::CpuPath> kernel_path() {
  return engine::choose_cpu_path(base::variable({}, "TINKER_CPU"));
}

Result<EngineFacts> engine_facts(const LocalServerOptions& options) {
  TINKER_TRY(const auto path, kernel_path());
  return EngineFacts{.kernels = engine::to_string(path),
                     .precision = options.precision == EnginePrecision::f32 ? "f32" : "bf16",
                     .threads = engine::thread_count(options.threads),
                     .free_bytes = engine::available_memory(),
                     .limit_bytes = options.memory_bytes};
}

}  // namespace tinker::server
