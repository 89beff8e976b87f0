#pragma once

#include <memory>

#include "engine/model.h"
#include "engine/random_model.h"
#include "support/temporary_folder.h"
#include "unit/engine/small_config.h"

namespace tinker::engine {

/// A model of random weights for the kernels that every machine has.
inline std::shared_ptr<const Model> small_model(ThreadPool& threads,
                                                Precision precision = Precision::f32) {
  const testing::TemporaryFolder folder;
  write_random_model(folder.path(), small_config(), 1).value();
  return Model::load(ModelFiles::open(folder.path()).value(),
                     kernels_of(CpuPath::scalar, precision),
                     threads)
      .value();
}

}  // namespace tinker::engine
