#include "http/server_codec.h"

#include "http/http_date.h"

namespace tinker::http {

std::string_view ServerClock::date() {
  const auto second = std::chrono::floor<std::chrono::seconds>(clock_.wall_time());
  if (second != second_ || text_.empty()) {
    second_ = second;
    text_ = format_http_date(second);
  }
  return text_;
}

}  // namespace tinker::http
