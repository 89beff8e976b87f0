#include "tinker/version.h"

namespace tinker {

std::string_view version() noexcept {
  return TINKER_VERSION;
}

std::string_view protocol_version() noexcept {
  return "0.36.0";
}

}  // namespace tinker
