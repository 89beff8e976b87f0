#include <cstdint>
#include <string>

#include "http/retry_after.h"
#include "tinker/check.h"

// The text in either header, and in both; a wait is never outside of (0 s, 60 s].
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::http;
  using namespace std::chrono_literals;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Header seconds = {.name = "retry-after", .value = text};
  const Header milliseconds = {.name = "retry-after-ms", .value = text};
  const std::chrono::system_clock::time_point now{784111777s +
                                                  500ms};  // as the dates in the corpus
  for (const auto& headers :
       {Headers{seconds}, Headers{milliseconds}, Headers{seconds, milliseconds}}) {
    if (const auto wait = retry_after(headers, now)) TINKER_CHECK(*wait > 0s && *wait <= 60s);
  }
  return 0;
}
