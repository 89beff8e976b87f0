#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tinker/loss.h"

namespace tinker {

/// A loss that a session knows, made by `ServiceClient::create_custom_loss`. Where the server runs
/// custom losses it has an id there; otherwise the client evaluates it.
///
/// Immutable.
class LossHandle {
 public:
  /// For the library itself.
  LossHandle(loss::Formula formula, std::string session_id, std::optional<std::string> loss_id)
      : formula_(std::move(formula)),
        session_id_(std::move(session_id)),
        loss_id_(std::move(loss_id)) {}

  [[nodiscard]] const loss::Formula& formula() const noexcept { return formula_; }
  /// It can be used in that session only.
  [[nodiscard]] const std::string& session_id() const noexcept { return session_id_; }
  /// Nothing where the client evaluates it.
  [[nodiscard]] const std::optional<std::string>& loss_id() const noexcept { return loss_id_; }

 private:
  loss::Formula formula_;
  std::string session_id_;
  std::optional<std::string> loss_id_;
};

}  // namespace tinker
