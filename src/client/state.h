#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/sequencer.h"
#include "session/batch_poller.h"
#include "session/holder.h"
#include "session/queue_observer.h"
#include "session/retry_handler.h"
#include "session/service.h"
#include "tinker/call_options.h"
#include "tinker/sampling_client.h"

// What the public clients are inside. A `…State` is what handles share: it keeps the service alive
// and dies wherever the last handle does. A `…Core` is what operations in flight share: it keeps
// nothing alive, lives on the loop and is let go of there.
namespace tinker::client {

/// Lets go of a `T` on the loop, whoever drops it.
template <typename T>
std::shared_ptr<T> on_loop(const std::shared_ptr<async::RuntimeCore>& runtime, T value) {
  return {new T(std::move(value)), [loop = runtime->loop()](T* object) {
            loop->post([owned = std::unique_ptr<T>(object)] {});
          }};
}

struct ServiceState {
  session::ServiceHandle service;
  session::HolderOptions options;  ///< For session-less services with another credential.
};

struct TrainingCore {
  std::shared_ptr<session::Holder> holder;
  std::string model_id;
  std::shared_ptr<Sequencer> sequencer;
  std::shared_ptr<session::QueueStateObserver> observer;

  [[nodiscard]] const std::shared_ptr<session::SessionCore>& session() const noexcept {
    return holder->core();
  }
};

struct TrainingState {
  session::ServiceHandle service;
  std::shared_ptr<TrainingCore> core;
};

struct SamplingCore {
  std::shared_ptr<session::Holder> holder;
  std::string sampling_session_id;
  SamplingClientOptions options;
  std::shared_ptr<session::RetryHandler> retry_handler;
  std::shared_ptr<session::QueueStateObserver> observer;
  std::shared_ptr<session::BatchPoller> batch = {};  ///< Where results are polled in batches.
  /// 0 for the client that made the sampling session; nothing until a copy knows its own (R10.15).
  std::optional<std::int64_t> clone_id = 0;
  std::int64_t next_seq_id = 0;
  async::Semaphore joining = async::Semaphore::counting(1);

  [[nodiscard]] const std::shared_ptr<session::SessionCore>& session() const noexcept {
    return holder->core();
  }
};

struct SamplingState {
  session::ServiceHandle service;
  std::shared_ptr<SamplingCore> core;
};

/// Runs an operation of a client.
template <typename T>
Future<T> start(const session::ServiceHandle& service,
                const CallOptions& options,
                async::Task<T> task) {
  return service.runtime().core()->spawn(
      service.service()->scope(),
      std::move(task),
      async::SpawnOptions{.deadline = options.deadline, .stop_token = options.stop_token});
}

/// A client was made, but all that would keep its service alive has gone.
inline Error service_gone() {
  return {.code = ErrorCode::cancelled, .message = "the service client went away"};
}

/// Loop thread.
Result<std::shared_ptr<SamplingCore>> make_sampling_core(
    const std::shared_ptr<session::Holder>& holder,
    std::string sampling_session_id,
    SamplingClientOptions options);

/// A client around a core that was made on the loop, unless the service has gone.
template <typename Client, typename State, typename Core>
Result<Client> make_client(const session::ServiceHandle::Weak& service,
                           std::shared_ptr<Core> core) {
  auto alive = service.lock();
  if (!alive) return service_gone();
  return Client(std::make_shared<const State>(State{*std::move(alive), std::move(core)}));
}

}  // namespace tinker::client
