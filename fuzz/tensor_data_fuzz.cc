#include <cstdint>
#include <cstring>
#include <vector>

#include "tinker/types/tensor_data.h"

namespace {

/// Takes small numbers off the input, so that most shapes and indices nearly fit.
struct Input {
  const std::uint8_t* at;
  const std::uint8_t* end;

  std::int64_t number() { return at < end ? static_cast<std::int8_t>(*at++) : 0; }
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> out(static_cast<std::size_t>(number() & 0xf));
    for (auto& value : out) value = number();
    return out;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tinker::TensorData;
  Input input = {data, data + size};
  const std::int64_t pad = input.number();
  tinker::CsrIndices indices = {.crow = input.numbers(), .col = input.numbers()};
  const TensorData sparse(tinker::Buffer<std::int64_t>(input.numbers()), input.numbers(), indices);
  const auto dense = sparse.to_dense(pad);
  TINKER_CHECK(dense.ok() == sparse.validate().ok());
  if (!dense) return 0;
  const auto again = dense->to_sparse(pad).to_dense(pad);
  TINKER_CHECK(again.ok() && *again == *dense);
  return 0;
}
