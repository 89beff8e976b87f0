#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/records.h"
#include "server/store.h"
#include "tinker/result.h"

namespace tinker::server {

/// The files of an upload: PEFT's, as exports have them.
inline constexpr std::array<std::string_view, 2> kUploadFiles = {"adapter_config.json",
                                                                 "adapter_model.safetensors"};

/// An adapter that a client sends file by file (PROTOCOL 14).
struct Upload {
  RunRecord run = {};          ///< That it will be, with its checkpoint.
  CheckpointPlace place = {};  ///< Of its files; empty until the disk has made the folder.
  Instant expires = {};
  bool is_finishing = false;
};

/// The uploads that were begun, until they are finished or expire. They do not outlive the server.
/// Loop thread only.
class Uploads {
 public:
  explicit Uploads(std::size_t most_of_owner) : most_of_owner_(most_of_owner) {}

  /// Fails with `rate_limited` when the owner has too many.
  [[nodiscard]] Result<void> check_room(std::string_view owner) const;
  void add(const std::string& id, Upload upload) { by_id_.emplace(id, std::move(upload)); }
  /// Null when there is none; valid until the next change.
  [[nodiscard]] Upload* find(const std::string& id);
  void remove(const std::string& id) { by_id_.erase(id); }
  /// Removes those that have expired; yields where their files are. An upload without a place, or
  /// one that is being finished, stays.
  std::vector<CheckpointPlace> take_expired(Instant now);

 private:
  std::size_t most_of_owner_;
  std::map<std::string, Upload> by_id_ = {};
};

}  // namespace tinker::server
