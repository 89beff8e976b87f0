#include <cstdint>
#include <cstring>
#include <string_view>

#include "tinker/types/date_time.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto check = [](const tinker::Result<tinker::DateTime>& time) {
    if (!time) return;
    const auto again = tinker::DateTime::parse(time->to_string());
    TINKER_CHECK(again.ok() && *again == *time);
  };
  check(tinker::DateTime::parse({reinterpret_cast<const char*>(data), size}));
  if (size >= sizeof(double)) {
    double seconds = 0.0;
    std::memcpy(&seconds, data, sizeof(seconds));
    check(tinker::DateTime::from_unix(seconds));
  }
  return 0;
}
