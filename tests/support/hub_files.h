#pragma once

#include <string>

#include "support/temporary_folder.h"
#include "tinker/hub.h"

namespace tinker::testing {

/// Three tokens: "a", "b", "ab".
inline constexpr const char* kTinyTokenizer =
    R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
    R"("post_processor":null,"decoder":null,)"
    R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}})";

/// A cache as a hub leaves it, with one file of a repository ("models--org--name").
inline void put_into_cache(const TemporaryFolder& cache,
                           const std::string& repository,
                           const std::string& revision = "main",
                           const std::string& name = "tokenizer.json",
                           const std::string& content = kTinyTokenizer) {
  const bool is_commit = revision.size() == 40;
  const std::string commit = is_commit ? revision : std::string(40, 'c');
  if (!is_commit) cache.write(repository + "/refs/" + revision, commit);
  cache.write(repository + "/snapshots/" + commit + "/" + name, content);
}

}  // namespace tinker::testing
