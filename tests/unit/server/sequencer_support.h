#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "async/virtual_loop.h"
#include "server/sequencer.h"
#include "tinker/testing/matchers.h"

namespace tinker::server {

using Kind = Sequencer::Kind;

/// A sequencer of a model whose first number is 1, with a hold of ten seconds of virtual time.
class SequencerTest : public ::testing::Test {
 protected:
  // Its start writes down the request id, or the error with it.
  Sequencer::Submission request(std::optional<std::int64_t> number, Kind kind, std::string id) {
    return {.seq_id = number,
            .kind = kind,
            .request_type = kind == Kind::pass ? "forward_backward" : "optim_step",
            .payload_hash = "hash of " + id,
            .request_id = id,
            .start = [this, id](std::optional<Error> error) {
              started_.push_back(id);
              if (error) failed_.emplace(id, *error);
            }};
  }
  Sequencer::Submission pass(std::int64_t number) {
    return request(number, Kind::pass, "p" + std::to_string(number));
  }
  Sequencer::Submission barrier(std::int64_t number) {
    return request(number, Kind::barrier, "b" + std::to_string(number));
  }
  Sequencer::Admission submit(Sequencer::Submission submission) {
    return sequencer_->submit(std::move(submission)).value();
  }

  std::shared_ptr<async::VirtualLoop> loop_ = std::make_shared<async::VirtualLoop>();
  std::vector<std::string> started_;
  std::map<std::string, Error> failed_;
  // Calls what waits when it dies, so it dies first.
  std::unique_ptr<Sequencer> sequencer_ =
      std::make_unique<Sequencer>(loop_, 1, std::chrono::seconds(10));
};

}  // namespace tinker::server
