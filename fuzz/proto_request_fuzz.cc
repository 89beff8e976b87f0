#include "transcode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tinker::wire::WireType;
  static const auto types = tinker::fuzz::types_where(
      [](const WireType& type) { return type.has_proto && type.kind != WireType::Kind::response; });
  return tinker::fuzz::transcode(types, tinker::wire::Encoding::proto, data, size);
}
