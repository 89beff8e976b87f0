#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tinker/check.h"
#include "wire/registry.h"

namespace tinker::fuzz {

/// The types for which `wanted` holds, in the order of the registry.
template <typename Predicate>
std::vector<const wire::WireType*> types_where(Predicate wanted) {
  std::vector<const wire::WireType*> types;
  for (const auto& type : wire::wire_types()) {
    if (wanted(type)) types.push_back(&type);
  }
  return types;
}

/// The first byte picks a type and, by its upper half, the lenient policy; the rest is a document.
/// What is accepted must come out in a form that is accepted again and comes out unchanged.
inline int transcode(const std::vector<const wire::WireType*>& types,
                     wire::Encoding encoding,
                     const std::uint8_t* data,
                     std::size_t size) {
  if (size == 0) return 0;
  const auto policy = data[0] < 128 ? wire::Policy::strict : wire::Policy::lenient;
  const wire::WireType& type = *types[data[0] % types.size()];
  std::string document(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> unknown;
  const auto once = type.transcode(
      std::move(document), encoding, encoding, {.policy = policy, .unknown_members = &unknown});
  if (!once) {
    TINKER_CHECK(!once.error().message.empty());
    return 0;
  }
  const auto twice = type.transcode(*once, encoding, encoding, {.policy = wire::Policy::lenient});
  TINKER_CHECK(twice.ok() && *twice == *once);
  return 0;
}

}  // namespace tinker::fuzz
