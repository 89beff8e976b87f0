// PROTOCOL 7.10.
#include "tinker/types/tinker_path.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::tinker_path_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOkAndHolds;

TinkerPath path_of(std::string run, CheckpointType kind, std::string name) {
  return {.training_run_id = std::move(run), .kind = kind, .name = std::move(name)};
}

const std::vector<std::pair<const char*, TinkerPath>> kPaths = {
    {"tinker://run-1/weights/step-10", path_of("run-1", CheckpointType::training, "step-10")},
    {"tinker://run-1/sampler_weights/s", path_of("run-1", CheckpointType::sampler, "s")},
    {"tinker://run-1/external_weights/e", path_of("run-1", CheckpointType::external, "e")},
    {"tinker://s:train:0/weights/a b%20é",
     path_of("s:train:0", CheckpointType::training, "a b%20é")},
    // "Empty run id or name is not rejected by the parser" (observed).
    {"tinker:///weights/step-10", path_of("", CheckpointType::training, "step-10")},
    {"tinker://run-1/weights/", path_of("run-1", CheckpointType::training, "")},
    {"tinker:///weights/", path_of("", CheckpointType::training, "")},
};

TEST(TinkerPath, ReadsItsParts) {
  for (const auto& [text, path] : kPaths) {
    EXPECT_THAT(TinkerPath::parse(text), IsOkAndHolds(path)) << text;
  }
}

TEST(TinkerPath, IsWrittenAsItWasRead) {
  for (const auto& [text, path] : kPaths) {
    EXPECT_EQ(path.to_string(), text);
  }
}

TEST(TinkerPath, NamesTheCheckpointWithinItsRun) {
  EXPECT_EQ(path_of("r", CheckpointType::training, "n").checkpoint_id(), "weights/n");
  EXPECT_EQ(path_of("r", CheckpointType::sampler, "n").checkpoint_id(), "sampler_weights/n");
  EXPECT_EQ(path_of("r", CheckpointType::external, "n").checkpoint_id(), "external_weights/n");
}

TEST(TinkerPath, RefusesAnotherScheme) {
  for (const char* text : {"",
                           "tinker",
                           "tinker:",
                           "tinker:/run/weights/n",
                           "TINKER://run/weights/n",
                           " tinker://run/weights/n",
                           "http://run/weights/n",
                           "run/weights/n"}) {
    EXPECT_THAT(TinkerPath::parse(text),
                IsError(ErrorCode::invalid_argument, HasSubstr("tinker://")))
        << text;
  }
}

TEST(TinkerPath, RefusesAnotherKind) {
  for (const char* text : {"tinker://run//n",
                           "tinker://run/weight/n",
                           "tinker://run/Weights/n",
                           "tinker://run/weights /n",
                           "tinker://run/training/n",
                           "tinker://run/sampler/n"}) {
    EXPECT_THAT(TinkerPath::parse(text),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr("weights"),
                              HasSubstr("sampler_weights"),
                              HasSubstr("external_weights"))))
        << text;
  }
}

TEST(TinkerPath, RefusesFewerThanThreeParts) {
  for (const char* text : {"tinker://",
                           "tinker://run",
                           "tinker://weights",
                           "tinker://run/weights",
                           "tinker:///weights",
                           "tinker://weights/n"}) {
    EXPECT_THAT(TinkerPath::parse(text),
                IsError(ErrorCode::invalid_argument, HasSubstr("tinker://")))
        << text;
  }
}

TEST(TinkerPath, RefusesMoreThanThreeParts) {
  for (const char* text : {"tinker://run/weights/n/m",
                           "tinker://run/weights/n/",
                           "tinker://run/weights//n",
                           "tinker://a/run/weights/n",
                           "tinker:////weights/n"}) {
    EXPECT_THAT(TinkerPath::parse(text),
                IsError(ErrorCode::invalid_argument, HasSubstr("tinker://")))
        << text;
  }
}

TEST(TinkerPath, QuotesWhatItRefuses) {
  EXPECT_THAT(TinkerPath::parse("tinker://run/oops/n"),
              IsError(ErrorCode::invalid_argument, HasSubstr("'tinker://run/oops/n'")));
}

}  // namespace
}  // namespace tinker::tinker_path_test
