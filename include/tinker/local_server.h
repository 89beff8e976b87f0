#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tinker/engine.h"
#include "tinker/future.h"
#include "tinker/hub.h"
#include "tinker/local_server_limits.h"
#include "tinker/log.h"
#include "tinker/result.h"
#include "tinker/secret.h"

/// The embedded server: Tinker's API answered by the engine on this machine. Any Tinker client,
/// the official Python SDK included, trains and samples against it.
namespace tinker {

namespace server {
class Host;
}

/// A base model that a server offers.
struct ServedModel {
  /// What clients call it, "Qwen/Qwen3-8B". Several names may have one source.
  std::string name = {};
  /// A Hugging Face folder, a GGUF file, "random:LAYERSxDIM,vocab=N" for a model of random
  /// weights, or the id of a model on the hub ("Qwen/Qwen3-0.6B", where there is no such folder),
  /// which is looked up in the cache of the Python tools. Empty: `name` is that id.
  std::string source = {};
  /// Folder or file of its tokenizer. Empty: the source's own, else the one that the hub's cache
  /// has for `name`.
  std::filesystem::path tokenizer = {};
};

/// How far a model is on its way from the hub.
struct FetchProgress {
  std::string model = {};  ///< Its id there.
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// A trained adapter that a server offers to sample from. Its base model is the served one that
/// its configuration names, else the only one that is served. No list shows it, all callers may
/// read it.
struct ServedAdapter {
  std::string name = {};              ///< "tinker://imported/sampler_weights/NAME" then names it.
  std::filesystem::path folder = {};  ///< In PEFT's layout; read at the start and on first use.
};

/// Who may use a server, and as whom.
struct ServedKey {
  std::string owner = {};  ///< Sessions, runs and checkpoints of one owner are hidden from others.
  Secret key = {};         ///< Starts with "tml-", as the official client demands.
};

struct LocalServerOptions {
  /// The short form of one entry of `models`: a folder or file, named by its last component.
  std::string model = {};
  std::vector<ServedModel> models = {};
  std::vector<ServedAdapter> adapters = {};
  /// Where checkpoints and the catalogue live. Empty: a temporary folder, removed at the end.
  std::filesystem::path data_dir = {};
  std::string host = "127.0.0.1";  ///< Any other than a loopback address needs `keys`.
  std::uint16_t port = 0;          ///< 0: a free one.
  /// Listen at this Unix socket instead of on a port. The clients of this library take its
  /// `base_url`, "http+unix://%2Frun%2Ftinker.sock"; those of the Python SDK know no such URLs.
  std::filesystem::path unix_socket = {};
  std::vector<ServedKey> keys = {};  ///< Empty: any key will do, all callers are one owner.
  std::filesystem::path tls_certificate = {};  ///< PEM; with `tls_key`, the server speaks TLS.
  std::filesystem::path tls_key = {};
  std::size_t threads = 0;       ///< Of the engine; 0: one for each processor.
  std::size_t memory_bytes = 0;  ///< For models and their work; 0: what the machine has.
  EnginePrecision precision = EnginePrecision::bf16;
  /// Flags of `client/config` and `client/dynamic_config` by name, "on" or "off" or a number.
  /// All features are on by default.
  std::map<std::string, std::string> flags = {};
  /// A session that sends no heartbeat for so long is over; its models are unloaded. At most 365
  /// days.
  std::chrono::seconds session_timeout{300};
  Logger logger = Logger::from_environment();
  /// Training runs survive the end of the process: what is asked of them is journalled in
  /// `data_dir` before it is acknowledged, and a server that is started there again goes on with
  /// them, to the bit, while their clients try again. Needs a `data_dir`.
  bool durable = false;
  /// A durable run's state is written after so many steps at the latest, if that takes no more than
  /// the twentieth part of the time; what came after it is done again after a crash. At least 1.
  std::size_t snapshot_steps = 64;
  /// Models by the hub's id that the cache lacks are fetched from the hub into it: `start` returns
  /// when they are there. Otherwise such a model is refused.
  bool fetch_models = false;
  /// Is told while models come, on a thread of the library, after every piece.
  std::function<void(const FetchProgress&)> on_fetch = {};
  /// The hub, its cache and the token for it.
  HubOptions hub = {};
  LocalServerLimits limits = {};
  /// What clients call the server where a proxy stands in front of it, "https://tinker.example":
  /// signed links begin with it, and requests may name its host. Unless that is this machine,
  /// `keys` are needed. Empty: links begin with the scheme and host of the request.
  std::string public_url = {};
};

/// A server in this process, on threads of its own.
///
///     auto server = LocalServer::start({.model = "models/tiny"}).value();
///     auto service = ServiceClient::connect({.base_url = server.base_url()}).value();
///
/// A handle: copies are the same server. When the last one goes, the server stops as `stop` with no
/// time does. Thread-safe.
class LocalServer {
 public:
  /// Fails with `invalid_argument` for options that make no sense (they are named) and with
  /// `io_error` where the address or the data folder cannot be used. With `fetch_models` it waits
  /// for the hub, and fails as `Hub` does.
  static Result<LocalServer> start(LocalServerOptions options);

  /// "http://127.0.0.1:38211", or "http+unix://%2Frun%2Ftinker.sock" for a Unix socket: what
  /// clients take as their base URL.
  [[nodiscard]] const std::string& base_url() const noexcept;
  [[nodiscard]] std::uint16_t port() const noexcept;  ///< 0 on a Unix socket.
  [[nodiscard]] const std::filesystem::path& data_dir() const noexcept;

  /// Takes no new requests, lets what runs finish for at most `limit`, ends the rest with an error
  /// that says so, and closes. Checkpoints that were acknowledged are whole. A second call waits
  /// for the first.
  Result<void> stop(std::chrono::nanoseconds limit = std::chrono::nanoseconds(0)) const;
  /// Reads certificate and key again, for connections to come.
  [[nodiscard]] Result<void> reload_certificates() const;

 private:
  explicit LocalServer(std::shared_ptr<server::Host> host) : host_(std::move(host)) {}
  std::shared_ptr<server::Host> host_;
};

}  // namespace tinker
