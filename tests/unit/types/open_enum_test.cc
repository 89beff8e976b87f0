#include "tinker/types/open_enum.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/types/custom_loss.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/model_input.h"
#include "tinker/types/promise.h"
#include "tinker/types/sample.h"
#include "tinker/types/session.h"
#include "tinker/types/telemetry.h"
#include "tinker/types/tensor_data.h"
#include "tinker/types/tinker_path.h"

namespace tinker::open_enum_test {
namespace {

using ::testing::ElementsAre;

/// The spellings of all enumerators up to `last`, each read back on the way.
template <WireEnum E>
std::vector<std::string> spellings(E last) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    const auto value = static_cast<E>(i);
    EXPECT_EQ(enum_from_string<E>(to_string(value)), value);
    out.emplace_back(to_string(value));
  }
  EXPECT_EQ(out.size(), detail::kEnumNames<E>.size());
  return out;
}

// ---- PROTOCOL 7.1: exact wire spelling ---------------------------------------------------------

TEST(WireSpelling, OfLossFunctions) {
  EXPECT_THAT(spellings(LossFn::custom),
              ElementsAre("cross_entropy",
                          "importance_sampling",
                          "ppo",
                          "cispo",
                          "dro",
                          "gspo",
                          "stable_reinforce",
                          "custom"));
}

TEST(WireSpelling, OfTensorDtypes) {
  EXPECT_EQ(to_string(TensorDtype::int64), "int64");
  EXPECT_EQ(to_string(TensorDtype::float32), "float32");
}

TEST(WireSpelling, OfStopReasons) {
  EXPECT_THAT(spellings(StopReason::length), ElementsAre("stop", "length"));
}

TEST(WireSpelling, OfRequestErrorCategories) {
  EXPECT_THAT(spellings(RequestErrorCategory::user), ElementsAre("unknown", "server", "user"));
}

TEST(WireSpelling, OfCheckpointTypes) {
  EXPECT_THAT(spellings(CheckpointType::external), ElementsAre("training", "sampler", "external"));
}

TEST(WireSpelling, OfSessionFinishReasons) {
  EXPECT_THAT(spellings(SessionFinishReason::interrupted),
              ElementsAre("success", "errored", "interrupted"));
}

TEST(WireSpelling, OfCustomLossOps) {
  EXPECT_THAT(
      spellings(CustomLossOp::output),
      ElementsAre(
          "placeholder", "get_attr", "call_function", "call_method", "call_module", "output"));
}

TEST(WireSpelling, OfQueueStates) {
  EXPECT_THAT(spellings(QueueState::paused_rate_limit),
              ElementsAre("active", "paused_capacity", "paused_rate_limit"));
}

TEST(WireSpelling, OfEventTypes) {
  EXPECT_THAT(spellings(EventType::generic_event),
              ElementsAre("SESSION_START", "SESSION_END", "UNHANDLED_EXCEPTION", "GENERIC_EVENT"));
}

TEST(WireSpelling, OfSeverities) {
  EXPECT_THAT(spellings(Severity::critical),
              ElementsAre("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"));
}

TEST(WireSpelling, OfImageFormats) {
  EXPECT_THAT(spellings(ImageFormat::jpeg), ElementsAre("png", "jpeg"));
}

TEST(WireSpelling, OfTraceExportStates) {
  EXPECT_THAT(spellings(TraceExportStatus::failed), ElementsAre("pending", "ready", "failed"));
}

TEST(EnumFromString, KnowsExactSpellingsOnly) {
  for (const char* text : {"", "Training", "training ", "train", "weights"}) {
    EXPECT_EQ(enum_from_string<CheckpointType>(text), std::nullopt) << text;
  }
}

// ---- OpenEnum --------------------------------------------------------------------------------

TEST(OpenEnum, IsTheFirstValueByDefault) {
  EXPECT_EQ(OpenEnum<CheckpointType>(), CheckpointType::training);
}

TEST(OpenEnum, ReadsAKnownValue) {
  const auto type = OpenEnum<CheckpointType>::parse("sampler");

  EXPECT_EQ(type, CheckpointType::sampler);
  EXPECT_EQ(type.known(), CheckpointType::sampler);
}

TEST(OpenEnum, KeepsAnUnknownValueAsItCame) {
  const auto type = OpenEnum<CheckpointType>::parse("holographic");

  EXPECT_EQ(type.known(), std::nullopt);
  EXPECT_EQ(type.text(), "holographic");
}

TEST(OpenEnum, KeepsAnEmptyValue) {
  const auto type = OpenEnum<CheckpointType>::parse("");

  EXPECT_EQ(type.known(), std::nullopt);
  EXPECT_EQ(type.text(), "");
}

TEST(OpenEnum, SpellsAKnownValue) {
  EXPECT_EQ(OpenEnum<CheckpointType>(CheckpointType::external).text(), "external");
}

TEST(OpenEnum, EqualsTheValueHoweverItWasMade) {
  EXPECT_EQ(OpenEnum<CheckpointType>::parse("external"),
            OpenEnum<CheckpointType>(CheckpointType::external));
}

TEST(OpenEnum, WithAnUnknownValueEqualsNoKnownOne) {
  const auto type = OpenEnum<CheckpointType>::parse("holographic");

  for (const auto known :
       {CheckpointType::training, CheckpointType::sampler, CheckpointType::external}) {
    EXPECT_NE(type, known);
  }
}

TEST(OpenEnum, ComparesUnknownValuesByTheirText) {
  EXPECT_EQ(OpenEnum<CheckpointType>::parse("a"), OpenEnum<CheckpointType>::parse("a"));
  EXPECT_NE(OpenEnum<CheckpointType>::parse("a"), OpenEnum<CheckpointType>::parse("b"));
}

}  // namespace
}  // namespace tinker::open_enum_test
