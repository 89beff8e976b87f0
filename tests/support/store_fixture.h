#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "server/store.h"
#include "support/temporary_folder.h"
#include "tinker/testing/fake_clock.h"

namespace tinker::testing {

/// A store in a folder of its own, with a clock that the test moves.
class StoreTest : public ::testing::Test {
 protected:
  StoreTest() : store_(open()) {}

  std::unique_ptr<server::Store> open() {
    return server::Store::open(folder_.path("data"), clock_).value();
  }
  void reopen() {
    store_.reset();
    store_ = open();
  }
  [[nodiscard]] server::Instant now() const {
    return std::chrono::floor<std::chrono::microseconds>(clock_.wall_time());
  }

  /// A place with `bytes` of weights in it.
  server::CheckpointPlace fill(std::size_t bytes = 10) {
    auto place = store_->begin_checkpoint().value();
    std::filesystem::create_directories(place.folder);
    std::ofstream(place.folder / "weights") << std::string(bytes, 'w');
    return place;
  }
  /// A checkpoint of the run "r" of "ada".
  server::CheckpointRecord save(const std::string& name,
                                CheckpointType kind = CheckpointType::training) {
    return put({.run_id = "r", .kind = kind, .name = name, .owner = "ada"});
  }
  server::CheckpointRecord put(server::CheckpointRecord record, bool overwrite = false) {
    return store_->commit_checkpoint(std::move(record), fill(), overwrite).value();
  }
  /// Names of the folders that there are.
  [[nodiscard]] std::vector<std::string> folders() const {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path("data/checkpoints"))) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TemporaryFolder folder_;
  FakeClock clock_;
  std::unique_ptr<server::Store> store_;
};

}  // namespace tinker::testing
