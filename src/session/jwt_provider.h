#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "api/api_client.h"
#include "api/token_provider.h"
#include "async/runtime_core.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "async/task.h"
#include "tinker/secret.h"

namespace tinker::session {

/// How long after its exchange a token that has `seconds_left` is replaced (R3.9): 300 s before its
/// end; at half its life when that is 600 s or less, and not before 10 s, so that short-lived and
/// expired tokens make no loop without pause (D26); after 60 s when its end is unknown.
std::chrono::nanoseconds refresh_delay(std::optional<double> seconds_left);

/// Exchanges a credential for a short-lived JWT (R3.6). The first request that needs the token
/// makes the exchange; from then on a task in the background replaces it in time, and a request
/// that finds 60 s or less left waits for a new one. Loop thread only.
///
/// What a token has left is judged by the wall clock, which may jump, and the background task
/// sleeps by the steady one; so whichever of the two is right gets the token replaced.
class JwtProvider final : public api::TokenProvider,
                          public std::enable_shared_from_this<JwtProvider> {
 public:
  /// `raw` gives the credential to exchange. Exchanges and the background task run below `scope`
  /// and end with it.
  JwtProvider(std::shared_ptr<async::RuntimeCore> core,
              std::shared_ptr<api::ApiClient> api,
              std::shared_ptr<api::TokenProvider> raw,
              std::shared_ptr<async::Scope> scope);

  /// Those who ask at the same time share one exchange and its outcome. Where that fails an older
  /// token is given out, with a warning; without one, the error (R3.8).
  async::Task<Secret> token() override;
  /// The last one, whatever its age.
  [[nodiscard]] std::optional<Secret> current() const {
    return token_.empty() ? std::nullopt : std::optional(token_);
  }

 private:
  /// An exchange under way.
  struct Exchange {
    async::Signal changed = {};
    std::optional<Result<void>> outcome = {};
    bool is_reported = false;
  };

  [[nodiscard]] bool is_usable() const;
  /// The exchange under way, or a new one.
  std::shared_ptr<Exchange> join_exchange();
  void settle(Exchange& exchange, Result<Secret> result);
  void adopt(Secret token);
  static async::Task<Secret> fetch(std::shared_ptr<api::ApiClient> api,
                                   std::shared_ptr<api::TokenProvider> raw);
  static async::Task<> outcome_of(std::shared_ptr<Exchange> exchange);
  static async::Task<> keep_fresh(std::weak_ptr<JwtProvider> weak);
  async::Task<> refresh();

  std::shared_ptr<async::RuntimeCore> core_;
  std::shared_ptr<api::ApiClient> api_;
  std::shared_ptr<api::TokenProvider> raw_;
  std::shared_ptr<async::Scope> scope_;
  Secret token_ = {};              // empty before the first exchange
  async::TimePoint adopted_ = {};  // when `token_` came
  async::TimePoint refresh_due_ = {};
  std::shared_ptr<Exchange> exchange_ = {};
  bool is_kept_fresh_ = false;
};

}  // namespace tinker::session
