#pragma once

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <vector>

#include <simdjson.h>

namespace tinker::engine {

/// Where what other libraries computed is, if it is there.
inline std::filesystem::path goldens() {
  const char* const set = std::getenv("TINKER_ENGINE_GOLDENS");
  return set != nullptr ? std::filesystem::path(set)
                        : std::filesystem::path(SHARED_DATA) / "engine_goldens";
}

/// A JSON document that lives as long as this.
class Json {
 public:
  explicit Json(const std::filesystem::path& path) : root_(parser_.load(path.string())) {}
  [[nodiscard]] simdjson::dom::element operator*() const { return root_; }

 private:
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

/// All numbers of an array and the arrays in it; null is NaN.
template <typename T>
std::vector<T> numbers(simdjson::dom::element array) {
  std::vector<T> out;
  for (const simdjson::dom::element item : array.get_array()) {
    if (item.is_array()) {
      for (const T inner : numbers<T>(item)) out.push_back(inner);
    } else {
      out.push_back(item.is_null() ? std::numeric_limits<T>::quiet_NaN()
                                   : static_cast<T>(item.get_double().value()));
    }
  }
  return out;
}

}  // namespace tinker::engine
