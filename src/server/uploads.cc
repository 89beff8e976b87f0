#include "server/uploads.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace tinker::server {

Result<void> Uploads::check_room(std::string_view owner) const {
  const auto open = std::ranges::count_if(
      by_id_, [&](const auto& entry) { return entry.second.run.owner == owner; });
  if (std::cmp_less(open, most_of_owner_)) return {};
  return Error{.code = ErrorCode::rate_limited,
               .message = base::concat(
                   open, " uploads are not finished: finish one, or wait until one expires")};
}

Upload* Uploads::find(const std::string& id) {
  const auto found = by_id_.find(id);
  return found != by_id_.end() ? &found->second : nullptr;
}

std::vector<CheckpointPlace> Uploads::take_expired(Instant now) {
  std::vector<CheckpointPlace> out;
  std::erase_if(by_id_, [&](const auto& entry) {
    const Upload& upload = entry.second;
    const bool has_place = !upload.place.name.empty();
    if (!has_place || upload.is_finishing || upload.expires > now) return false;
    out.push_back(upload.place);
    return true;
  });
  return out;
}

}  // namespace tinker::server
