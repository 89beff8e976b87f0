#include <cstdint>
#include <string>
#include <string_view>

#include "server/access.h"
#include "server/key_file.h"
#include "tinker/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker::server;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto keys = parse_key_file(text);
  if (!keys.ok()) {
    // Numbers and words of ours alone, nothing of the file: so it cannot get long.
    TINKER_CHECK(keys.error().to_string().size() < 120);
    return 0;
  }
  const auto access = Access::create(*keys, std::string(32, 's'));
  TINKER_CHECK(access.ok() && access->needs_key());
  for (const auto& key : *keys) {
    const auto caller = access->authenticate(key.key.expose(), {});
    TINKER_CHECK(caller.ok() && caller->name == key.owner);
    TINKER_CHECK(!access->authenticate(key.key.expose() + 'x', {}).ok() || keys->size() > 1);
  }
  return 0;
}
