#include "cli/visible_text.h"

#include <cstdlib>

#include <unistd.h>

#include "base/strings.h"
#include "wire/utf8.h"

namespace tinker::cli {

std::string visible(std::string_view bytes) {
  const bool is_text = wire::is_utf8(bytes);
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !is_text)) {
      out += base::concat("\\x", base::to_hex({&c, 1}));
    } else {
      out += c;
    }
  }
  return out;
}

bool has_colours() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in a command changes the environment.
  return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace tinker::cli
