#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/runtime_core.h"
#include "base/environment.h"
#include "http/url.h"
#include "tinker/hub.h"
#include "tokenizer/hub_cache.h"

namespace tinker::tokenizer {

/// Where a hub is and where its files are kept: options with all their defaults.
struct HubSettings {
  std::string endpoint = {};
  Secret token = {};
  std::filesystem::path cache = {};
  bool is_offline = false;

  static Result<HubSettings> resolve(const HubOptions& options,
                                     const base::Environment& environment);
};

/// What a repository holds at a commit.
struct HubListing {
  std::string commit = {};
  std::map<std::string, std::uint64_t> files = {};  ///< Sizes by name; 0 where the hub says none.
};

/// From the answer of a hub's API. Fails with `invalid_response`.
Result<HubListing> parse_hub_listing(std::string_view json);

/// Is told how many bytes of a file are here, while it comes; its error ends the download.
using HubProgress = std::function<Result<void>(std::uint64_t)>;

/// A hub without its public face. Loop thread only.
class HubCore : public std::enable_shared_from_this<HubCore> {
 public:
  HubCore(std::shared_ptr<async::RuntimeCore> runtime,
          std::shared_ptr<http::Transport> transport,
          HubSettings settings)
      : runtime_(std::move(runtime)),
        transport_(std::move(transport)),
        settings_(std::move(settings)),
        cache_(settings_.cache) {}

  static Result<std::shared_ptr<HubCore>> open(const std::shared_ptr<async::RuntimeCore>& runtime,
                                               HubOptions options);
  /// The one of a runtime, as the environment has it.
  static Result<std::shared_ptr<HubCore>> shared(
      const std::shared_ptr<async::RuntimeCore>& runtime);

  /// A tokenizer, from what is kept, from the cache, or from the hub.
  async::Task<Tokenizer> tokenizer(TokenizerId id);
  /// The path of a file in the cache, after it was brought if need be.
  async::Task<std::string> file(HubPath path) { return file(std::move(path), HubProgress()); }
  async::Task<std::string> file(HubPath path, HubProgress progress);
  /// What a repository holds, as the hub says now.
  async::Task<HubListing> list(std::string repository, std::string revision);
  /// From now on the cache takes the branch or tag of `path` for this commit.
  async::Task<> set_revision(HubPath path, std::string commit);

  [[nodiscard]] const HubCache& cache() const noexcept { return cache_; }

 private:
  /// What the hub says of a file.
  struct Head {
    std::string commit = {};
    std::string etag = {};  ///< Names the content.
    std::optional<std::uint64_t> size = {};
    bool is_absent = false;  ///< The commit has no such file.
  };
  using Blob = std::shared_ptr<const IncompleteBlob>;

  async::Task<Tokenizer> load(TokenizerId id);
  /// Nothing when the repository has no such file.
  async::Task<std::optional<std::string>> find(HubPath path, HubProgress progress);
  async::Task<Head> look(HubPath path, int max_retries);
  async::Task<Head> try_look(HubPath path);
  async::Task<> bring(HubPath path, Head head, HubProgress progress);
  async::Task<> fetch(HubPath path, Head head, HubProgress progress, Blob blob);
  async::Task<> try_fetch(HubPath path, Head head, HubProgress progress, Blob blob);
  async::Task<HubListing> try_list(HubPath path);
  async::Task<http::Response> send(http::Url url,
                                   std::string range,
                                   std::shared_ptr<http::BodySink> sink);
  async::Task<> pause(HubPath path, Error error, int retries);
  [[nodiscard]] Result<http::Url> url_of(const HubPath& path) const;
  [[nodiscard]] Error offline(const HubPath& path) const;
  [[nodiscard]] Error refusal(const HubPath& path, const http::Response& response) const;

  template <typename F>
  auto on_workers(F f) {
    return async::until(runtime_->offload(std::move(f)));
  }

  std::shared_ptr<async::RuntimeCore> runtime_;
  std::shared_ptr<http::Transport> transport_;
  HubSettings settings_;
  HubCache cache_;
  std::list<std::pair<TokenizerId, Tokenizer>> kept_ = {};  // the one used last first
};

}  // namespace tinker::tokenizer
