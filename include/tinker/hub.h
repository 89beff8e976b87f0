#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tinker/future.h"
#include "tinker/http.h"
#include "tinker/runtime.h"
#include "tinker/secret.h"
#include "tinker/tokenizer.h"
#include "tinker/transport.h"

namespace tinker {

namespace tokenizer {
class HubCore;
}

/// Where a hub keeps the tokenizer of a model.
struct TokenizerId {
  std::string repository = {};    ///< "Qwen/Qwen3-8B"
  std::string revision = "main";  ///< A branch, a tag or a commit.

  /// For a model as servers name it, and the tokenizer they name with it, if any. What follows a
  /// ':' does not count; "organisation/model/variant" is "organisation/model"; Llama 3 has one
  /// tokenizer for all; models whose tokenizer is code come in the revision that this library
  /// knows. Fails with `invalid_argument` when it is none of a hub.
  static Result<TokenizerId> of_model(std::string_view model,
                                      std::optional<std::string_view> tokenizer = {});

  friend bool operator==(const TokenizerId&, const TokenizerId&) = default;
};

/// Where models' files come from and are kept. The defaults are those of the Python tools.
struct HubOptions {
  /// Default: `HF_ENDPOINT`, else the public hub.
  std::string endpoint = {};
  /// For private and gated repositories. Default: `HF_TOKEN`, else what is in the file
  /// `HF_TOKEN_PATH` or `HF_HOME/token`. Sent to the endpoint alone.
  std::optional<Secret> token = {};
  /// Default: `HF_HUB_CACHE`, else `HF_HOME/hub`, else `~/.cache/huggingface/hub`.
  std::filesystem::path cache = {};
  /// Use what is in the cache and send nothing. Default: `HF_HUB_OFFLINE`.
  std::optional<bool> is_offline = {};
  http::TransportOptions transport_options = {};
  std::shared_ptr<http::Transport> transport = {};  ///< Default: the library's own.
  std::optional<Runtime> runtime = {};              ///< Default: one of its own.
};

/// Models' files by name, in the cache that the Python tools use as well.
///
///     Result<Hub> hub = Hub::open();
///     Result<Tokenizer> tokenizer = hub->tokenizer("Qwen/Qwen3-8B").get();
///
/// A file comes once, is checked against its checksum, and appears in the cache at once and whole;
/// a download that broke off goes on where it was. Processes that want the same file wait for the
/// one that brings it. Without the network what is in the cache is used.
///
/// Errors: `not_found` (no such repository, revision or file), `unauthenticated` and
/// `permission_denied` (private or gated; the message says what to do), `io_error` (the cache),
/// `invalid_response` (damaged, or no hub), and those of the transport.
///
/// Copies are the same hub. Thread-safe.
class Hub {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  static Result<Hub> open();
  static Result<Hub> open(HubOptions options);

  /// Where a file of a repository is on this machine, after it was brought if need be.
  Future<std::filesystem::path> file(std::string repository,
                                     std::string name,
                                     std::string revision = "main") const;
  /// The tokenizer of a model as servers name it: see `TokenizerId::of_model`.
  Future<Tokenizer> tokenizer(std::string_view model) const;
  /// The same of one that is known exactly. The 32 used last are kept.
  Future<Tokenizer> tokenizer(TokenizerId id) const;
  // NOLINTEND(modernize-use-nodiscard)

 private:
  struct State;
  explicit Hub(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace tinker
