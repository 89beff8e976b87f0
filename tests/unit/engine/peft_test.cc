#include "engine/peft.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include <gmock/gmock.h>

#include "base/half.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/small_config.h"

namespace tinker::engine::peft_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using Dtype = formats::Safetensors::Dtype;
using Tensor = formats::Safetensors::Tensor;

constexpr std::size_t kRank = 3;

std::shared_ptr<const LoraLayout> small_layout() {
  return LoraLayout::create(small_config(), {.rank = kRank, .train_mlp = false}).value();
}

/// Numbers that every type has.
float number(std::size_t i) {
  constexpr std::array kNumbers = {1.0F, -2.0F, 0.5F, 0.0F, 3.0F};
  return kNumbers[i % kNumbers.size()];
}

std::string encode(Dtype dtype, std::size_t i) {
  constexpr std::array<std::uint16_t, 5> kHalves = {0x3C00, 0xC000, 0x3800, 0x0000, 0x4200};
  const auto bytes_of = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  if (dtype == Dtype::f32) return bytes_of(number(i));
  return bytes_of(dtype == Dtype::bf16 ? base::to_bf16(number(i)) : kHalves[i % kHalves.size()]);
}

/// A file in the making: tensors by name, each a run of `number` that starts elsewhere.
class PeftFile {
 public:
  explicit PeftFile(const LoraLayout& layout, Dtype dtype = Dtype::f32) {
    for (const auto& module : layout.modules()) {
      add("base_model.model." + module.name + ".lora_A.weight", kRank, module.in, dtype);
      add("base_model.model." + module.name + ".lora_B.weight", module.out, kRank, dtype);
    }
  }

  void add(const std::string& name, std::size_t rows, std::size_t columns, Dtype dtype) {
    auto& [shape, type, data] = entries_[name];
    shape = {rows, columns};
    type = dtype;
    data.clear();
    for (std::size_t i = 0; i < rows * columns; ++i) data += encode(dtype, name.size() + i);
  }
  void set(const std::string& name, std::size_t index, const std::string& element) {
    entries_.at(name).data.replace(index * element.size(), element.size(), element);
  }
  void remove(const std::string& name) { entries_.erase(name); }
  void rename(const std::string& from, const std::string& to) {
    auto entry = entries_.extract(from);
    entry.key() = to;
    entries_.insert(std::move(entry));
  }

  [[nodiscard]] Result<Floats> read(const LoraLayout& layout) const {
    const auto file = bytes();
    return read_peft_tensors(formats::Safetensors::parse(file).value(), layout);
  }
  [[nodiscard]] Result<std::vector<Floats>> read_unsigned(const LoraLayout& layout) const {
    const PeftPrefix prefix = {.is_signed = false};
    const auto file = bytes();
    return read_peft_tensors(formats::Safetensors::parse(file).value(), layout, {&prefix, 1});
  }

 private:
  struct Entry {
    std::vector<std::uint64_t> shape;
    Dtype dtype = Dtype::f32;
    std::string data;
  };
  [[nodiscard]] std::string bytes() const {
    const testing::TemporaryFolder folder;
    std::vector<Tensor> tensors;
    for (const auto& [name, entry] : entries_) {
      tensors.push_back(
          {.name = name, .dtype = entry.dtype, .shape = entry.shape, .data = entry.data});
    }
    formats::write_safetensors(folder.path("adapter.safetensors"), tensors).value();
    return folder.read("adapter.safetensors");
  }

  std::map<std::string, Entry> entries_;
};

constexpr auto kHead = "base_model.model.lm_head.lora_";
constexpr auto kHostedHead = "base_model.model.model.lm_head.lora_";
constexpr auto kQuery = "base_model.model.model.layers.1.self_attn.q_proj.lora_";

std::string weight(const char* module, const char* factor) {
  return std::string(module) + factor + ".weight";
}

TEST(PeftTensors, AreTheParametersOfTheAdapter) {
  const auto layout = small_layout();
  for (const auto dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const auto found = PeftFile(*layout, dtype).read(*layout).value();

    ASSERT_EQ(found.size(), layout->parameters());
    for (const auto& module : layout->modules()) {
      // A as it is: (rank, in); B turned: (out, rank) in the file, (rank, out) here.
      const std::size_t first =
          std::string("base_model.model." + module.name + ".lora_A.weight").size();
      for (std::size_t i = 0; i < kRank * module.in; ++i)
        ASSERT_EQ(found[module.a + i], number(first + i)) << module.name;
      for (std::size_t i = 0; i < module.out; ++i) {
        for (std::size_t r = 0; r < kRank; ++r)
          ASSERT_EQ(found[module.b + r * module.out + i], number(first + i * kRank + r));
      }
    }
  }
}

TEST(PeftTensors, MayHaveTheHeadUnderTheNameOfTheService) {
  const auto layout = small_layout();
  PeftFile file(*layout);
  const auto expected = file.read(*layout).value();
  file.rename(weight(kHead, "A"), weight(kHostedHead, "A"));
  file.rename(weight(kHead, "B"), weight(kHostedHead, "B"));

  const auto found = file.read(*layout).value();

  EXPECT_TRUE(std::ranges::equal(found.span(), expected.span()));
}

TEST(PeftTensors, AreWrittenAsPeftHasThem) {
  const testing::TemporaryFolder folder;
  const auto layout = small_layout();
  Floats values(layout->parameters());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::vector<PeftNumbers> numbers = {{.prefix = "", .values = values.span()},
                                            {.prefix = "m.", .values = values.span()}};

  write_peft_tensors(folder.path("some"), *layout, numbers, {{"step", "1"}}).value();

  const auto bytes = folder.read("some");
  const auto file = formats::Safetensors::parse(bytes).value();
  EXPECT_EQ(file.metadata().at("step"), "1");
  EXPECT_EQ(file.tensors().size(), 4 * layout->modules().size());
  const auto& head = layout->modules().back();
  const auto* const a = file.find(weight(kHead, "A"));
  const auto* const b = file.find("m." + weight(kHead, "B"));
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_THAT(a->shape, ::testing::ElementsAre(kRank, head.in));
  EXPECT_THAT(b->shape, ::testing::ElementsAre(head.out, kRank));
  const auto at = [](const Tensor& tensor, std::size_t i) {
    float out = 0;
    std::memcpy(&out, tensor.data.data() + i * sizeof out, sizeof out);
    return out;
  };
  EXPECT_EQ(at(*a, 2 * head.in + 1), static_cast<float>(head.a + 2 * head.in + 1));
  EXPECT_EQ(at(*b, 4 * kRank + 2), static_cast<float>(head.b + 2 * head.out + 4));
  constexpr std::array<PeftPrefix, 2> kBoth = {PeftPrefix(), PeftPrefix{.text = "m."}};
  for (const auto& found : read_peft_tensors(file, *layout, kBoth).value())
    EXPECT_TRUE(std::ranges::equal(found.span(), values.span()));
}

TEST(PeftTensors, AreRefusedIfOneIsMissing) {
  const auto layout = small_layout();
  for (const auto& missing :
       {weight(kQuery, "A"), weight(kQuery, "B"), weight(kHead, "A"), weight(kHead, "B")}) {
    PeftFile file(*layout);
    file.remove(missing);

    EXPECT_THAT(
        file.read(*layout),
        IsError(ErrorCode::invalid_argument, HasSubstr(missing + ": the file has no such tensor")));
  }
}

TEST(PeftTensors, AreRefusedIfOneHasAnotherShape) {
  const auto layout = small_layout();
  PeftFile turned(*layout);
  turned.add(weight(kQuery, "B"), kRank, 24, Dtype::f32);
  PeftFile of_another_rank(*layout);
  of_another_rank.add(weight(kHead, "A"), 4, 12, Dtype::f32);

  EXPECT_THAT(turned.read(*layout),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr(weight(kQuery, "B") + ": its shape is [3, 24]; expected [24, 3]")));
  EXPECT_THAT(of_another_rank.read(*layout),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr(weight(kHead, "A") + ": its shape is [4, 12]; expected [3, 12]")));
}

TEST(PeftTensors, AreRefusedIfOneHasAnotherType) {
  const auto layout = small_layout();
  PeftFile file(*layout);
  file.add(weight(kQuery, "A"), kRank, 12, Dtype::i16);

  EXPECT_THAT(
      file.read(*layout),
      IsError(ErrorCode::invalid_argument,
              HasSubstr(weight(kQuery, "A") + ": its type is I16; expected F32, BF16 or F16")));
}

TEST(PeftTensors, AreRefusedIfANumberIsNotFinite) {
  const auto layout = small_layout();
  const auto bytes_of = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto expect_refused = [&](Dtype dtype, const std::string& bad, const std::string& text) {
    for (const auto& name : {weight(kQuery, "A"), weight(kHead, "B")}) {
      PeftFile file(*layout, dtype);
      file.set(name, 7, bad);

      EXPECT_THAT(
          file.read(*layout),
          IsError(ErrorCode::invalid_argument,
                  HasSubstr(name + ": its number 7 is " + text + "; expected a finite one")));
    }
  };

  expect_refused(Dtype::f32, bytes_of(std::numeric_limits<float>::quiet_NaN()), "nan");
  expect_refused(Dtype::f32, bytes_of(-std::numeric_limits<float>::infinity()), "-inf");
  expect_refused(Dtype::bf16, bytes_of(std::uint16_t{0x7F80}), "inf");
  expect_refused(Dtype::f16, bytes_of(std::uint16_t{0x7E00}), "nan");
}

TEST(PeftTensors, AreRefusedIfANumberIsNegativeThatMustNotBe) {
  const auto layout = small_layout();
  const PeftFile file(*layout);

  EXPECT_THAT(file.read(*layout), ::tinker::testing::IsOk());
  EXPECT_THAT(file.read_unsigned(*layout),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr(" is -2; expected a finite one of at least 0")));
}

// A layout of more bytes than there are addresses, for a file that has a few.
TEST(PeftTensors, AreFoundBeforeThereIsMemoryForThem) {
  constexpr std::size_t kHuge = std::size_t{1} << 20U;
  auto model = small_config();
  model.hidden_size = kHuge;
  model.layers = 5000;
  const auto layout = LoraLayout::create(model, {.rank = kHuge}).value();

  EXPECT_THAT(PeftFile(*small_layout()).read(*layout),
              IsError(ErrorCode::invalid_argument, HasSubstr("its shape is [3, 12]; expected")));
  EXPECT_THAT(PeftFile(*small_layout()).read_unsigned(*layout),
              IsError(ErrorCode::invalid_argument, HasSubstr("its shape is [3, 12]; expected")));
}

TEST(PeftTensors, AreRefusedIfThereAreOthers) {
  const auto layout = small_layout();
  for (const auto& superfluous : {weight("base_model.model.model.layers.2.mlp.up_proj.lora_", "A"),
                                  weight(kHostedHead, "A")}) {
    PeftFile file(*layout);
    file.add(superfluous, kRank, 12, Dtype::f32);

    EXPECT_THAT(file.read(*layout),
                IsError(ErrorCode::invalid_argument,
                        HasSubstr(superfluous + ": the model has no such adapter")));
  }
}

}  // namespace
}  // namespace tinker::engine::peft_test
