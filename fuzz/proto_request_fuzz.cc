#include "transcode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tinker::wire::WireType;
  static const auto types = tinker::fuzz::types_where(
      [](const WireType& type) { return type.has_proto && type.kind != WireType::Kind::response; });
  // Half of the first byte picks the policy, the type is picked by its remainder.
  const bool lenient = size > 0 && data[0] >= 128;
  return tinker::fuzz::transcode(
      types,
      tinker::wire::Encoding::proto,
      data,
      size,
      lenient ? tinker::wire::Policy::lenient : tinker::wire::Policy::strict);
}
