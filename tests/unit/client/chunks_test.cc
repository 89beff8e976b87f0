#include "client/chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"

namespace tinker::client::chunks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EstimateBytes, CountsWhatADatumHolds) {  // R7.4
  Datum datum;
  datum.model_input.chunks = {EncodedTextChunk{.tokens = {1, 2, 3}},
                              ImageChunk{.data = "12345"},
                              DmelChunk{.dmel = "1234567"},
                              ImageAssetPointerChunk{.location = "ab"}};
  datum.loss_fn_inputs.emplace("target_tokens", std::vector<std::int64_t>(3));
  datum.loss_fn_inputs.emplace("weights", std::vector<float>(3));

  EXPECT_EQ(estimate_bytes(datum), 3 * 4 + 5 + 7 + 2 + 3 * 8 + 3 * 4);
}

TEST(EstimateBytes, CountsTheListedValuesAndIndicesOfASparseTensor) {  // R7.4
  Datum datum;
  const CsrIndices indices = {.crow = std::vector<std::int64_t>{0, 1, 2},
                              .col = std::vector<std::int64_t>{4, 7}};
  datum.loss_fn_inputs.emplace(
      "weights", TensorData(std::vector<float>{1.0F, 2.0F}, TensorData::Shape{2, 100}, indices));

  EXPECT_EQ(estimate_bytes(datum), 2 * 4 + 3 * 8 + 2 * 8);
}

TEST(PlanChunks, ClosesAChunkThatIsFull) {  // R7.5
  const auto data = make_data(5);

  EXPECT_THAT(plan_chunks(data, {.fwdbwd_max_chunk_len = 2}),
              ElementsAre(Chunk{0, 2, 64}, Chunk{2, 2, 64}, Chunk{4, 1, 32}));
  EXPECT_THAT(plan_chunks(data, {}), ElementsAre(Chunk{0, 5, 160}));
}

TEST(PlanChunks, ClosesAChunkBeforeItGetsTooLarge) {  // R7.5
  const auto data = make_data(4);

  EXPECT_THAT(plan_chunks(data, {.fwdbwd_max_chunk_bytes_count = 64}),
              ElementsAre(Chunk{0, 2, 64}, Chunk{2, 2, 64}));
  EXPECT_THAT(plan_chunks(data, {.fwdbwd_max_chunk_bytes_count = 63}),
              ElementsAre(Chunk{0, 1, 32}, Chunk{1, 1, 32}, Chunk{2, 1, 32}, Chunk{3, 1, 32}));
}

TEST(PlanChunks, GivesAnOversizedDatumAChunkOfItsOwn) {  // R7.5
  auto data = make_data(3);
  data[1] = make_data(1, 1000)[0];

  EXPECT_THAT(plan_chunks(data, {.fwdbwd_max_chunk_bytes_count = 100}),
              ElementsAre(Chunk{0, 1, 32}, Chunk{1, 1, 16000}, Chunk{2, 1, 32}));
}

TEST(PlanChunks, HasNoneForNoData) {
  EXPECT_THAT(plan_chunks({}, {}), IsEmpty());
}

}  // namespace
}  // namespace tinker::client::chunks_test
