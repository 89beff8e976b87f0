#include <cstdint>
#include <string_view>

#include "session/credential_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::session;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = parse_credentials(text);
  if (!file) {
    // Numbers and names of ours alone, none of the file's texts (D7): so it cannot get long.
    TINKER_CHECK(file.error().to_string().size() < 120);
    return 0;
  }
  const auto printed = print_credentials(*file);
  TINKER_CHECK(printed.ok());
  const auto again = parse_credentials(*printed);
  TINKER_CHECK(again.ok() && *again == *file);
  return 0;
}
