#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/adapters/torch.h"
#include "tinker/testing/matchers.h"

namespace tinker::adapters::torch_adapter_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

TEST(FromTorch, RefersToContiguousFloatsAndKeepsThemAlive) {
  torch::Tensor tensor = torch::ones({2, 3});
  const void* memory = tensor.data_ptr();

  const auto converted = from_torch(tensor);
  tensor.reset();

  ASSERT_THAT(converted, IsOk());
  EXPECT_EQ(converted->floats().bytes().data(), memory);
  EXPECT_EQ(converted->shape(), (TensorData::Shape{2, 3}));
  EXPECT_THAT(converted->floats().to_vector(), ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(FromTorch, WidensBfloat16AndInt32) {
  const auto floats = from_torch(torch::full({2}, 0.5, torch::kBFloat16));
  const auto ints = from_torch(torch::full({2}, -7, torch::kInt));

  EXPECT_THAT(floats.value().floats().to_vector(), ElementsAre(0.5F, 0.5F));
  EXPECT_THAT(ints.value().ints().to_vector(), ElementsAre(-7, -7));
}

TEST(FromTorch, RefusesBooleans) {
  EXPECT_THAT(from_torch(torch::ones({2}, torch::kBool)),
              IsError(ErrorCode::invalid_argument, HasSubstr("signed integers")));
}

TEST(ToTorch, GivesBackWhatWasPutIn) {
  const torch::Tensor tensor = torch::arange(6, torch::kLong).reshape({2, 3});

  const auto back = to_torch(from_torch(tensor).value());

  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(torch::equal(*back, tensor));
}

}  // namespace
}  // namespace tinker::adapters::torch_adapter_test
