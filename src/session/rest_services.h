#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "session/service.h"

namespace tinker::session {

/// Session-less services that clients without a service client of their own share (R1.17): one per
/// base URL and key as they were given, for the life of the runtime. Loop thread only.
class RestServices {
 public:
  /// The one for `options`, made with the first call. Options beyond URL and key are those of the
  /// first.
  static std::shared_ptr<Service> find_or_make(const std::shared_ptr<async::RuntimeCore>& runtime,
                                               HolderOptions options);

 private:
  // The key itself, not a digest: two accounts must never be taken for one, and it is in memory
  // anyway.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Service>> services_ = {};
};

}  // namespace tinker::session
