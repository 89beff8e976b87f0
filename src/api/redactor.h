#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tinker::api {

/// Knows the credentials of one client and takes them out of texts. Loop thread only.
///
/// Permanent secrets stay for good. The others stay while a pin lives, and afterwards as long as
/// they are among the `kMaxIdle` most recently used, because a server may still quote them.
class Redactor {
 public:
  /// Holds a secret in the list, e.g. while a request that carries it is in flight.
  using Pin = std::shared_ptr<const std::string>;
  static constexpr std::size_t kMaxIdle = 64;
  /// Shorter texts are not redacted: they would take ordinary words out of messages.
  static constexpr std::size_t kMinLength = 8;

  /// Redacts `secret` from now on.
  void keep(std::string_view secret);
  /// Redacts `secret` at least as long as the pin lives. Null for one that is too short, or kept.
  [[nodiscard]] Pin use(std::string_view secret);

  /// `text` with "[redacted]" in place of every run of characters that belong to secrets. The first
  /// `limit` characters of it are enough; a secret across that limit is taken out whole.
  [[nodiscard]] std::string redact(std::string_view text,
                                   std::size_t limit = std::string_view::npos) const;
  [[nodiscard]] std::size_t size() const noexcept { return permanent_.size() + recent_.size(); }

 private:
  void forget_idle();

  std::vector<std::string> permanent_ = {};
  std::list<Pin> recent_ = {};  // most recently used first
};

}  // namespace tinker::api
