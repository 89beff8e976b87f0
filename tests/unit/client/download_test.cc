#include "tinker/download.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "base/crc32c.h"
#include "base/md5.h"
#include "base/sha256.h"
#include "client/rest.h"
#include "support/client_fixture.h"
#include "support/tar_archive.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "wire/base64.h"

namespace tinker::client::download_test {
namespace {

namespace fs = std::filesystem;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::TarArchive;
using ::tinker::testing::TemporaryFolder;
using namespace std::chrono_literals;

constexpr auto kExternal = "tinker://9a:train:0/external_weights/final";
constexpr auto kTraining = "tinker://9a:train:0/weights/final";
constexpr std::size_t kPart = 1024;

std::string noise(std::size_t size, std::uint32_t seed = 1) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>((seed = seed * 1'664'525 + 1'013'904'223) >> 24U);
  return out;
}

/// One object, as storage serves it.
struct Stored {
  std::string content = {};
  std::string etag = "\"v1\"";
  http::Headers headers = {};  ///< More of them, e.g. a checksum.
  bool knows_ranges = true;
  bool has_length = true;
  /// Asked before each answer; one that it returns is given instead.
  std::function<std::optional<FakeReply>(const http::Request&)> before = {};
  /// Changes an answer.
  std::function<void(FakeReply&)> after = {};
  int requests = 0;
};

/// A server with one checkpoint, and storage at another host.
struct Fixture : ClientFixture {
  Fixture() {
    server->handle("/external_weights_urls", [this](const http::Request&) { return list(); });
    server->handle("/archive", [this](const http::Request&) {
      return FakeReply{.status = 302,
                       .headers = {{"Location", "https://storage.test/a.tar?sig=" + signature()}}};
    });
  }

  Stored& store(const std::string& name, std::string content) {
    auto& object = objects[name];
    object = std::make_shared<Stored>();
    object->content = std::move(content);
    server->handle("/" + name, [this, object](const http::Request& request) {
      return serve(*object, request);
    });
    return *object;
  }
  FakeReply list() {
    std::string urls;
    const auto sig = signature();
    for (const auto& [name, object] : objects) {
      urls += (urls.empty() ? "" : ",") + ("\"" + name) + "\":\"https://storage.test/" + name +
              "?sig=" + sig + "\"";
    }
    return {.body = "{\"urls\":{" + urls + R"(},"expires":"2026-05-27T20:00:00Z"})"};
  }
  /// Another one with each call; storage takes only the last.
  std::string signature() { return "secret-signature-" + std::to_string(++signed_); }

  FakeReply serve(Stored& object, const http::Request& request) const {
    ++object.requests;
    if (object.before) {
      if (auto reply = object.before(request)) return *std::move(reply);
    }
    auto reply = answer(object, request);
    if (object.after) object.after(reply);
    return reply;
  }
  FakeReply answer(const Stored& object, const http::Request& request) const {
    if (!request.url.ends_with("sig=secret-signature-" + std::to_string(signed_))) {
      return {.status = 403, .body = "<Error>secret-signature</Error>"};
    }
    FakeReply reply = {.headers = object.headers};
    reply.no_length = !object.has_length;
    if (!object.etag.empty()) reply.headers.add("ETag", object.etag);
    const auto range = request.headers.find("range").value_or("");
    const auto if_range = request.headers.find("if-range").value_or(object.etag);
    if (!object.knows_ranges || range.empty() || if_range != object.etag) {
      reply.body = object.content;
      return reply;
    }
    std::size_t first = 0;
    std::size_t last = 0;
    const auto dash = range.find('-');
    std::from_chars(range.data() + 6, range.data() + dash, first);
    std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
    const auto total = std::to_string(object.content.size());
    if (first >= object.content.size()) {
      return {.status = 416, .headers = {{"Content-Range", "bytes */" + total}}};
    }
    last = std::min(last, object.content.size() - 1);
    reply.status = 206;
    reply.body = object.content.substr(first, last - first + 1);
    reply.headers.add("Content-Range",
                      "bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" + total);
    return reply;
  }

  RestClient rest() {
    return RestClient(connect_rest({.base_url = "http://server.test",
                                    .api_key = Secret("tml-secret-key"),
                                    .transport = server,
                                    .runtime = time.runtime()},
                                   variables())
                          .value());
  }
  Result<DownloadedCheckpoint> download(DownloadOptions options = small_parts(),
                                        const char* path = kExternal) {
    return rest().download_checkpoint(path, target(), std::move(options)).get();
  }
  static DownloadOptions small_parts() { return {.connections = 3, .part_bytes = kPart}; }
  [[nodiscard]] std::string target() const { return folder.path("copy"); }
  [[nodiscard]] std::string read(const std::string& name) const {
    return folder.read("copy/" + name);
  }
  [[nodiscard]] bool exists(const std::string& name) const { return fs::exists(folder.path(name)); }
  [[nodiscard]] std::vector<testing::FakeTransport::Sent> sent_to_storage() const {
    auto sent = server->sent();
    std::erase_if(sent, [](const auto& one) { return !one.request.url.starts_with("https://st"); });
    return sent;
  }

  TemporaryFolder folder;
  std::map<std::string, std::shared_ptr<Stored>> objects;

 private:
  int signed_ = 0;
};

TEST(Download, BringsAllFilesInParts) {
  Fixture f;
  const auto big = noise(10 * kPart + 7);
  f.store("model.safetensors", big);
  f.store("sub/config.json", "{}");
  f.store("empty", "");

  const auto done = f.download();

  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->folder, f.target());
  EXPECT_THAT(done->files,
              ElementsAre(DownloadedFile{.name = "empty"},
                          DownloadedFile{.name = "model.safetensors", .size = big.size()},
                          DownloadedFile{.name = "sub/config.json", .size = 2}));
  EXPECT_EQ(done->bytes_reused, 0U);
  EXPECT_TRUE(f.read("model.safetensors") == big);
  EXPECT_EQ(f.read("sub/config.json"), "{}");
  EXPECT_TRUE(f.exists("copy/empty"));
  EXPECT_FALSE(f.exists("copy.partial"));
  EXPECT_EQ(f.objects["model.safetensors"]->requests, 11);
}

TEST(Download, StorageGetsNothingOfOurs) {
  Fixture f;
  f.store("model", noise(3 * kPart));
  f.environment["TINKER_CUSTOM_HEADERS"] = "X-Secret: tml-secret-key";

  ASSERT_THAT(f.download(), IsOk());

  ASSERT_THAT(f.sent_to_storage(), SizeIs(3));
  for (const auto& sent : f.sent_to_storage()) {
    for (const auto& [name, value] : sent.request.headers) {
      EXPECT_THAT(std::string(name),
                  ::testing::AnyOf("Accept", "Accept-Encoding", "User-Agent", "Range", "If-Range"));
      EXPECT_THAT(std::string(value), Not(HasSubstr("secret")));
    }
  }
}

TEST(Download, SignaturesAreNeverShown) {
  Fixture f;
  f.store("a", "x").before = [](const http::Request& request) {
    return FakeReply{.error = Error{.code = ErrorCode::connection_failed,
                                    .message = "cannot reach " + request.url}};
  };
  EXPECT_THAT(f.download(),
              IsError(ErrorCode::connection_failed,
                      AllOf(HasSubstr("storage.test/a"), Not(HasSubstr("signature")))));
  f.store("a", "x").before = [](const http::Request&) {
    return FakeReply{.status = 404, .body = "<Error>secret-signature</Error>"};
  };
  EXPECT_THAT(f.download(), IsError(ErrorCode::not_found, Not(HasSubstr("signature"))));
  f.store("a", "x").before = [](const http::Request&) {
    return FakeReply{.status = 302, .headers = {{"Location", "ftp://x?secret-signature"}}};
  };
  EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, Not(HasSubstr("signature"))));

  EXPECT_THAT(f.log.text(), Not(HasSubstr("signature")));
}

TEST(Download, AtMostSoManyRequestsAreInFlight) {
  Fixture f;
  std::size_t most = 0;
  for (const char* name : {"a", "b"}) {
    f.store(name, noise(20 * kPart)).after = [&](FakeReply& reply) {
      most = std::max(most, f.server->in_flight());
      reply.delay = 1s;
    };
  }

  ASSERT_THAT(f.download(), IsOk());

  EXPECT_EQ(most, 3U);
  std::set<std::uint64_t> channels;
  for (const auto& sent : f.sent_to_storage()) channels.insert(sent.request.channel);
  EXPECT_THAT(channels, SizeIs(3));  // a connection each
}

TEST(Download, GoesOnWhereAnEarlierCallStopped) {
  Fixture f;
  const auto big = noise(10 * kPart + 7);
  auto& object = f.store("model", big);
  f.store("small", "{}");
  object.before = [](const http::Request& request) -> std::optional<FakeReply> {
    if (request.headers.find("range")->starts_with("bytes=5120-")) return FakeReply{.status = 404};
    return std::nullopt;
  };
  ASSERT_THAT(f.download(), IsError(ErrorCode::not_found, HasSubstr("model: storage answers 404")));
  EXPECT_FALSE(f.exists("copy"));
  EXPECT_TRUE(f.exists("copy.partial/journal"));

  object.before = {};
  object.requests = 0;
  const auto done = f.download();

  ASSERT_THAT(done, IsOk());
  EXPECT_TRUE(f.read("model") == big);
  EXPECT_GE(done->bytes_reused, 4 * kPart);
  EXPECT_LE(object.requests, 7);  // of eleven parts
  EXPECT_FALSE(f.exists("copy.partial"));
}

TEST(Download, WhatIsCompleteIsOnlyLookedAt) {
  Fixture f;
  const auto big = noise(4 * kPart);
  auto& object = f.store("a", big);
  f.store("b", "x").before = [](const http::Request&) {
    return FakeReply{.status = 404, .delay = 1s};
  };
  ASSERT_THAT(f.download(), IsError(ErrorCode::not_found, _));
  object.requests = 0;
  f.objects["b"]->before = {};

  const auto done = f.download();

  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(object.requests, 1);
  EXPECT_EQ(done->bytes_reused, big.size());
  EXPECT_TRUE(f.read("a") == big);
}

TEST(Download, BeginsAgainWhenTheObjectIsAnotherOneTheNextTime) {
  Fixture f;
  auto& object = f.store("a", noise(4 * kPart));
  f.store("b", "x").before = [](const http::Request&) {
    return FakeReply{.status = 404, .delay = 1s};
  };
  ASSERT_THAT(f.download(), IsError(ErrorCode::not_found, _));
  object.content = noise(3 * kPart, 2);
  object.etag = "\"v2\"";
  f.objects["b"]->before = {};

  const auto done = f.download();

  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->bytes_reused, 0U);
  EXPECT_TRUE(f.read("a") == object.content);
}

TEST(Download, BeginsAgainWhenTheObjectChangesMeanwhile) {
  Fixture f;
  auto& object = f.store("a", noise(8 * kPart));
  object.before = [&object](const http::Request&) -> std::optional<FakeReply> {
    if (object.requests == 5) {
      object.content = noise(6 * kPart, 2);
      object.etag = "\"v2\"";
    }
    return std::nullopt;
  };

  ASSERT_THAT(f.download(), IsOk());

  EXPECT_TRUE(f.read("a") == object.content);
}

TEST(Download, GivesUpOnAnObjectThatNeverStaysTheSame) {
  Fixture f;
  auto& object = f.store("a", noise(8 * kPart));
  object.before = [&object](const http::Request&) -> std::optional<FakeReply> {
    object.etag = "\"v" + std::to_string(object.requests) + "\"";
    return std::nullopt;
  };

  EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, HasSubstr("a: the file changed")));
}

TEST(Download, AnotherCheckpointDoesNotGoOnFromThisOne) {
  Fixture f;
  f.store("a", noise(4 * kPart));
  f.store("b", "x").before = [](const http::Request&) {
    return FakeReply{.status = 404, .delay = 1s};
  };
  ASSERT_THAT(f.download(), IsError(ErrorCode::not_found, _));
  f.objects["b"]->before = {};

  const auto done = f.download(f.small_parts(), "tinker://9a:train:0/external_weights/other");

  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->bytes_reused, 0U);
}

TEST(Download, AJournalThatIsCutShortCostsNoMoreThanItsLastLine) {
  Fixture f;
  const auto big = noise(4 * kPart);
  f.store("a", big);
  f.store("b", "x").before = [](const http::Request&) {
    return FakeReply{.status = 404, .delay = 1s};
  };
  ASSERT_THAT(f.download(), IsError(ErrorCode::not_found, _));
  const auto journal = f.folder.read("copy.partial/journal");
  f.folder.write("copy.partial/journal", journal.substr(0, journal.size() - 2));
  f.objects["b"]->before = {};

  const auto done = f.download();

  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->bytes_reused, 3 * kPart);
  EXPECT_TRUE(f.read("a") == big);
}

TEST(Download, RetriesWhatMayWorkLater) {
  Fixture f;
  const auto big = noise(4 * kPart);
  auto& object = f.store("a", big);
  object.before = [&object](const http::Request&) -> std::optional<FakeReply> {
    switch (object.requests) {
      case 1: return FakeReply{.status = 503};
      case 2: return FakeReply{.status = 429, .headers = {{"Retry-After", "20"}}};
      case 3:
        return FakeReply{.error =
                             Error{.code = ErrorCode::connection_failed, .message = "it broke"}};
      case 5: return FakeReply{.status = 408};
      default: return std::nullopt;
    }
  };

  ASSERT_THAT(f.download(), IsOk());

  EXPECT_TRUE(f.read("a") == big);
  EXPECT_GE(f.time.elapsed(), 20s);
  EXPECT_THAT(f.log.lines("storage answers 503"), SizeIs(1));
}

TEST(Download, GivesUpAfterTenRetries) {
  Fixture f;
  auto& object = f.store("a", "x");
  object.before = [](const http::Request&) { return FakeReply{.status = 503}; };

  EXPECT_THAT(f.download(), IsError(ErrorCode::server_error, HasSubstr("503")));
  EXPECT_EQ(object.requests, 11);
}

TEST(Download, AShortBodyIsNoSuccess) {  // D22
  Fixture f;
  const auto big = noise(4 * kPart);
  auto& object = f.store("a", big);
  object.after = [&](FakeReply& reply) {
    if (object.requests == 1 || object.requests == 3) reply.body.resize(100);
  };
  ASSERT_THAT(f.download(), IsOk());
  EXPECT_TRUE(f.read("a") == big);
}

TEST(Download, NorIsAShortBodyWithoutRanges) {  // D22
  Fixture f;
  auto& object = f.store("a", std::string(100, 'x'));
  object.knows_ranges = false;
  object.headers.add("Content-Length", "4096");

  EXPECT_THAT(f.download(), IsError(ErrorCode::connection_failed, HasSubstr("cut short")));
  EXPECT_FALSE(f.exists("copy"));
}

TEST(Download, ABreakInTheMiddleOfAPartCostsThatPart) {
  Fixture f;
  const auto big = noise(4 * kPart);
  auto& object = f.store("a", big);
  object.after = [&](FakeReply& reply) {
    if (object.requests != 2) return;
    reply.body.resize(100);
    reply.error = Error{.code = ErrorCode::connection_failed, .message = "it broke"};
  };

  ASSERT_THAT(f.download(), IsOk());

  EXPECT_TRUE(f.read("a") == big);
  EXPECT_EQ(object.requests, 5);
}

TEST(Download, TakesWholeBodiesFromStorageWithoutRanges) {
  Fixture f;
  const auto big = noise(3 << 20);
  f.store("a", big).knows_ranges = false;
  auto& chunked = f.store("b", big);
  chunked.knows_ranges = false;
  chunked.has_length = false;
  chunked.headers.add("Transfer-Encoding", "chunked");
  auto& no_etag = f.store("c", big);
  no_etag.etag = "";
  auto& weak = f.store("d", big);
  weak.etag = "W/\"v1\"";

  ASSERT_THAT(f.download(), IsOk());

  for (const char* name : {"a", "b", "c", "d"}) EXPECT_TRUE(f.read(name) == big) << name;
  EXPECT_EQ(f.objects["a"]->requests, 1);
  EXPECT_EQ(no_etag.requests, 2);  // nothing would tell whether two parts belong together
  EXPECT_EQ(weak.requests, 2);
}

TEST(Download, RefusesABodyThatCouldBeCutShort) {
  Fixture f;
  auto& object = f.store("a", "text");
  object.knows_ranges = false;
  object.has_length = false;

  EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, HasSubstr("how long it is")));

  base::Sha256 hash;
  hash.update("text");
  object.headers.add("x-amz-checksum-sha256", wire::to_base64(hash.finish()));
  EXPECT_THAT(f.download(), IsOk());
}

TEST(Download, RefusesRangesThatWereNotAskedFor) {
  Fixture f;
  f.store("a", "x").before = [](const http::Request&) {
    return FakeReply{
        .status = 206, .body = "text", .headers = {{"Content-Range", "bytes 10-13/5000"}}};
  };
  EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, HasSubstr("bytes 10-13/5000")));
  f.store("a", "x").before = [](const http::Request&) {
    return FakeReply{.status = 206, .body = "text", .headers = {{"Content-Range", "bytes 0-1/2"}}};
  };
  EXPECT_THAT(f.download(),
              IsError(ErrorCode::invalid_response, HasSubstr("more than it announced")));
  f.store("a", "x").headers.add("Content-Encoding", "gzip");
  EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, HasSubstr("gzip")));
}

/// The headers by which storage sends a checksum of `text`.
std::vector<std::pair<http::Headers, Checksum>> checksums_of(const std::string& text) {
  base::Sha256 sha;
  sha.update(text);
  const auto sha256 = wire::to_base64(sha.finish());
  base::Md5 md;
  md.update(text);
  const auto md5 = wire::to_base64(md.finish());
  const std::uint32_t crc = base::crc32c(text);
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(crc >> shift & 0xffU);
  const auto crc32c = wire::to_base64(bytes);
  return {{{{"Repr-Digest", "md5=:" + md5 + ":, sha-256=:" + sha256 + ":"}}, Checksum::sha256},
          {{{"Digest", "SHA-256=" + sha256}}, Checksum::sha256},
          {{{"x-amz-checksum-sha256", sha256}}, Checksum::sha256},
          {{{"x-amz-checksum-crc32c", crc32c}}, Checksum::crc32c},
          {{{"x-goog-hash", "crc32c=" + crc32c + ",md5=" + md5}}, Checksum::md5},
          {{{"x-goog-hash", "crc32c=" + crc32c}, {"x-goog-hash", "md5=" + md5}}, Checksum::md5},
          {{{"x-ms-blob-content-md5", md5}}, Checksum::md5},
          // Of something else, or nothing that is known.
          {{{"x-amz-checksum-sha256", sha256 + "-3"}}, Checksum::none},
          {{{"x-goog-hash", "crc32c=" + crc32c}, {"x-goog-stored-content-encoding", "gzip"}},
           Checksum::none},
          {{{"Digest", "unixsum=30637"}, {"Content-MD5", md5}}, Checksum::none}};
}

TEST(Download, VerifiesTheChecksumThatStorageSends) {
  const auto good = noise(3 * kPart);
  const auto bad = noise(3 * kPart, 2);
  const auto cases = checksums_of(good);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [headers, kind] = cases[i];
    {
      Fixture f;
      f.store("a", good).headers = headers;
      const auto done = f.download();
      ASSERT_THAT(done, IsOk()) << i;
      EXPECT_EQ(done->files[0].checksum, kind) << i;
    }
    Fixture f;
    f.store("a", bad).headers = headers;
    const auto done = f.download();
    if (kind == Checksum::none) {
      EXPECT_THAT(done, IsOk()) << i;
    } else {
      EXPECT_THAT(done, IsError(ErrorCode::invalid_response, HasSubstr("checksum"))) << i;
      EXPECT_FALSE(f.exists("copy")) << i;
    }
  }
}

TEST(Download, DamageOnTheWayIsFetchedAgain) {
  Fixture f;
  const auto good = noise(3 * kPart);
  auto& object = f.store("a", good);
  object.headers = checksums_of(good)[0].first;
  object.before = [&](const http::Request&) -> std::optional<FakeReply> {
    object.content = object.requests == 2 ? noise(3 * kPart, 2) : good;
    return std::nullopt;
  };

  ASSERT_THAT(f.download(), IsOk());

  EXPECT_TRUE(f.read("a") == good);
  EXPECT_EQ(object.requests, 6);
  EXPECT_THAT(f.log.lines("begins again"), SizeIs(1));
}

TEST(Download, ContentMd5CountsForWholeBodies) {
  Fixture f;
  auto& object = f.store("a", "text");
  object.headers.add("Content-MD5", "HLLS3YVe9eOIR76tPV30Cg==");
  EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, HasSubstr("MD5")));
}

TEST(Download, AsksForNewUrlsWhenTheOldOnesExpire) {
  Fixture f;
  const auto big = noise(10 * kPart);
  auto& object = f.store("a", big);
  object.before = [&](const http::Request&) -> std::optional<FakeReply> {
    if (object.requests == 4 || object.requests == 9) f.signature();  // all before are void
    return std::nullopt;
  };

  ASSERT_THAT(f.download(), IsOk());

  EXPECT_TRUE(f.read("a") == big);
  EXPECT_THAT(f.server->sent("/external_weights_urls"), SizeIs(3));
}

TEST(Download, GivesUpWhenFreshUrlsAreRefusedToo) {
  for (const int status : {400, 401, 403}) {
    Fixture f;
    auto& object = f.store("a", "x");
    object.before = [=](const http::Request&) { return FakeReply{.status = status}; };

    EXPECT_THAT(f.download(), IsError(error_code_for_status(status), HasSubstr("storage answers")));
    EXPECT_EQ(object.requests, 3);
    EXPECT_THAT(f.server->sent("/external_weights_urls"), SizeIs(3));
  }
}

TEST(Download, FollowsRedirectsButNotOutOfTls) {
  Fixture f;
  const auto big = noise(3 * kPart);
  f.store("elsewhere", big);
  f.objects.erase("elsewhere");
  f.store("a", "").before = [&](const http::Request& request) {
    const auto query = request.url.substr(request.url.find('?'));
    return FakeReply{.status = 307,
                     .body = "moved",
                     .headers = {{"Location", "https://cdn.test/elsewhere" + query}}};
  };
  ASSERT_THAT(f.download(), IsOk());
  EXPECT_TRUE(f.read("a") == big);

  f.store("a", "").before = [](const http::Request&) {
    return FakeReply{.status = 302, .headers = {{"Location", "http://cdn.test/elsewhere"}}};
  };
  EXPECT_THAT(f.download({.overwrite = true}), IsError(ErrorCode::invalid_response, _));
  f.store("a", "").before = [](const http::Request&) {
    return FakeReply{.status = 302, .headers = {{"Location", "/a"}}};
  };
  EXPECT_THAT(f.download({.overwrite = true}),
              IsError(ErrorCode::unexpected_status, HasSubstr("redirects")));
}

TEST(Download, RefusesNamesThatLeaveTheFolder) {
  for (const char* urls : {R"({"../a":"https://s/a"})",
                           R"({"/a":"https://s/a"})",
                           R"({"a/../../b":"https://s/a"})",
                           R"({"a\nb":"https://s/a"})",
                           R"({"":"https://s/a"})",
                           R"({"a":"https://s/a","./a":"https://s/b"})",
                           R"({"a":"https://s/a","a/b":"https://s/b"})"}) {
    Fixture f;
    f.server->reply(
        "/external_weights_urls",
        {{.body = std::string("{\"urls\":") + urls + R"(,"expires":"2026-05-27T20:00:00Z"})"}});

    EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, _)) << urls;
    EXPECT_THAT(f.sent_to_storage(), IsEmpty());
    EXPECT_TRUE(fs::is_empty(f.folder.path())) << urls;
  }
}

TEST(Download, RefusesWhatCannotBeDownloaded) {
  Fixture f;
  EXPECT_THAT(f.download(), IsError(ErrorCode::not_found, HasSubstr("has no files")));
  f.store("a", "x");
  EXPECT_THAT(f.download({.connections = 0}), IsError(ErrorCode::invalid_argument, HasSubstr("0")));
  EXPECT_THAT(f.download({.connections = 65}), IsError(ErrorCode::invalid_argument, _));
  EXPECT_THAT(f.download({.part_bytes = 1}), IsError(ErrorCode::invalid_argument, _));
  EXPECT_THAT(f.download({}, "weights/a"), IsError(ErrorCode::invalid_argument, _));
  for (const char* folder : {"", "/"}) {
    EXPECT_THAT(f.rest().download_checkpoint(kExternal, folder).get(),
                IsError(ErrorCode::invalid_argument, _));
  }
  f.server->reply("/external_weights_urls",
                  {{.body = R"({"urls":{"a":"no url"},"expires":"2026-05-27T20:00:00Z"})"}});
  EXPECT_THAT(f.download(), IsError(ErrorCode::invalid_response, Not(HasSubstr("no url"))));
}

TEST(Download, AnExistingTargetIsAnErrorBeforeAnyRequest) {
  Fixture f;
  f.store("a", "new");
  f.folder.write("copy/a", "old");

  EXPECT_THAT(f.download(), IsError(ErrorCode::io_error, HasSubstr("overwrite is not set")));

  EXPECT_EQ(f.read("a"), "old");
  EXPECT_THAT(f.server->sent(), IsEmpty());
}

TEST(Download, OverwritingKeepsTheOldCopyUntilTheNewOneIsComplete) {  // D23
  Fixture f;
  auto& object = f.store("a", "new");
  f.folder.write("copy/a", "old");
  f.folder.write("copy/b", "old");
  object.before = [](const http::Request&) { return FakeReply{.status = 404}; };
  ASSERT_THAT(f.download({.overwrite = true}), IsError(ErrorCode::not_found, _));
  EXPECT_EQ(f.read("a"), "old");

  object.before = {};
  ASSERT_THAT(f.download({.overwrite = true}), IsOk());

  EXPECT_EQ(f.read("a"), "new");
  EXPECT_FALSE(f.exists("copy/b"));
  EXPECT_FALSE(f.exists("copy.partial"));
}

TEST(Download, ATargetThatAppearsMeanwhileIsNotOverwritten) {
  Fixture f;
  f.store("a", "new").before = [&](const http::Request&) -> std::optional<FakeReply> {
    f.folder.write("copy/a", "somebody's");
    return std::nullopt;
  };

  EXPECT_THAT(f.download(), IsError(ErrorCode::io_error, HasSubstr("copy")));
  EXPECT_EQ(f.read("a"), "somebody's");
}

TEST(Download, AFolderInTheWayIsLeftAlone) {
  Fixture f;
  f.store("a", "x");
  f.folder.write("copy.partial/mine", "text");
  EXPECT_THAT(f.download(), IsError(ErrorCode::io_error, HasSubstr("in the way")));
  f.folder.write("copy.partial/journal", "mine too");
  EXPECT_THAT(f.download(), IsError(ErrorCode::io_error, HasSubstr("in the way")));

  EXPECT_EQ(f.folder.read("copy.partial/mine"), "text");
  EXPECT_EQ(f.folder.read("copy.partial/journal"), "mine too");
}

TEST(Download, LinksInTheWayAreNotFollowed) {
  Fixture f;
  f.store("a", "x");
  f.folder.write("elsewhere/a", "text");
  fs::create_symlink(f.folder.path("elsewhere"), f.folder.path("copy.partial"));
  EXPECT_THAT(f.download(), IsError(ErrorCode::io_error, _));
  EXPECT_EQ(f.folder.read("elsewhere/a"), "text");
}

TEST(Download, TwoIntoOneFolderDoNotMix) {
  Fixture f;
  f.store("a", noise(4 * kPart)).before = [](const http::Request&) -> std::optional<FakeReply> {
    return FakeReply{.never = true};
  };
  auto first = f.rest().download_checkpoint(kExternal, f.target(), f.small_parts());
  f.time.advance(1s);

  EXPECT_THAT(f.download(), IsError(ErrorCode::io_error, HasSubstr("another download")));
  EXPECT_FALSE(first.is_ready());

  first.cancel();
  EXPECT_THAT(first.get(), IsError(ErrorCode::cancelled, _));
  f.objects["a"]->before = {};
  EXPECT_THAT(f.download(), IsOk());
}

TEST(Download, StopsAtOnceAndCanGoOn) {
  Fixture f;
  const auto big = noise(10 * kPart);
  auto& object = f.store("a", big);
  object.before = [&](const http::Request&) -> std::optional<FakeReply> {
    if (object.requests > 5) return FakeReply{.never = true};
    return std::nullopt;
  };
  EXPECT_THAT(f.rest()
                  .with({.deadline = 30s})
                  .download_checkpoint(kExternal, f.target(), f.small_parts())
                  .get(),
              IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_EQ(f.time.elapsed(), 30s);
  EXPECT_EQ(f.server->in_flight(), 0U);

  std::stop_source source;
  object.requests = 5;
  auto again = f.rest()
                   .with({.stop_token = source.get_token()})
                   .download_checkpoint(kExternal, f.target(), f.small_parts());
  f.time.advance(1s);
  source.request_stop();
  EXPECT_THAT(again.get(), IsError(ErrorCode::cancelled, _));

  object.before = {};
  const auto done = f.download();
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->bytes_reused, 5 * kPart);
  EXPECT_TRUE(f.read("a") == big);
}

TEST(Download, TellsItsProgress) {
  Fixture f;
  auto& object = f.store("a", noise(4 * kPart));
  object.after = [&object](FakeReply& reply) {
    if (object.requests != 3) return;
    reply.error = Error{.code = ErrorCode::connection_failed, .message = "it broke"};
  };
  f.store("b", "text");
  std::vector<DownloadProgress> told;
  auto options = f.small_parts();
  options.progress = [&](const DownloadProgress& progress) { told.push_back(progress); };

  ASSERT_THAT(f.download(options), IsOk());

  ASSERT_GE(told.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(told, {}, &DownloadProgress::bytes_done));
  EXPECT_EQ(told.back().bytes_done, 4 * kPart + 4);
  EXPECT_EQ(told.back().bytes_total, 4 * kPart + 4);
  for (const auto& one : told) {
    EXPECT_THAT(one.file, ::testing::AnyOf("a", "b"));
    EXPECT_EQ(one.bytes_total.value_or(4 * kPart + 4), 4 * kPart + 4);
  }
}

TEST(Download, ProgressOfAResumedOneBeginsWhereItStood) {
  Fixture f;
  f.store("a", noise(4 * kPart));
  f.store("b", "x").before = [](const http::Request&) {
    return FakeReply{.status = 404, .delay = 1s};
  };
  ASSERT_THAT(f.download(), IsError(ErrorCode::not_found, _));
  f.objects["b"]->before = {};
  std::vector<std::uint64_t> told;
  auto options = f.small_parts();
  options.progress = [&](const DownloadProgress& progress) { told.push_back(progress.bytes_done); };

  ASSERT_THAT(f.download(options), IsOk());

  EXPECT_GE(told.front(), 4 * kPart);
  EXPECT_EQ(told.back(), 4 * kPart + 1);
}

TEST(Download, AnExceptionOfTheCallbackEndsIt) {
  Fixture f;
  f.store("a", noise(4 * kPart));
  auto options = f.small_parts();
  options.progress = [](const DownloadProgress&) { throw std::runtime_error("no more"); };

  EXPECT_THAT(f.download(options), IsError(ErrorCode::internal, HasSubstr("no more")));
  EXPECT_FALSE(f.exists("copy"));
}

TEST(Download, UnpacksTheArchiveOfOtherCheckpoints) {  // PROTOCOL 9.25, 9.37
  Fixture f;
  const auto big = noise(5 * kPart);
  f.store("a.tar", TarArchive().file("adapter_config.json", "{}").file("sub/model", big).bytes());

  const auto done = f.download(f.small_parts(), kTraining);

  ASSERT_THAT(done, IsOk());
  EXPECT_THAT(done->files,
              ElementsAre(DownloadedFile{.name = "adapter_config.json", .size = 2},
                          DownloadedFile{.name = "sub/model", .size = big.size()}));
  EXPECT_TRUE(f.read("sub/model") == big);
  EXPECT_FALSE(f.exists("copy/archive"));
  EXPECT_FALSE(f.exists("copy.partial"));
  EXPECT_THAT(f.server->sent("/external_weights_urls"), IsEmpty());
}

TEST(Download, UnpacksCompressedArchives) {
  Fixture f;
  std::ifstream file(std::string(TAR_ARCHIVES) + "/tar_gnu.tar.gz", std::ios::binary);
  f.store("a.tar", {std::istreambuf_iterator<char>(file), {}});

  const auto done = f.download(f.small_parts(), kTraining);

  ASSERT_THAT(done, IsOk());
  EXPECT_THAT(done->files, SizeIs(4));
  EXPECT_EQ(f.read("adapter_config.json"), "{\"r\":32}\n");
}

TEST(Download, HostileArchivesLeaveNothing) {
  TarArchive link;
  link.file("a", "x").add({.name = "b", .type = '2', .link = "/etc"}).file("b/c", "x");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {TarArchive().file("../evil", "x").bytes(), "../evil"},
      {TarArchive().file("/evil", "x").bytes(), "absolute"},
      {link.bytes(), "symbolic link"},
      {TarArchive().file("a", "x").file("a", "y").bytes(), "twice"},
      {TarArchive().file("a", noise(3000)).unfinished(), "cut short"},
      {TarArchive().bytes(), "no files"},
      {noise(5000), "tar"},
      {"\x1f\x8b garbage", "gzip"}};
  for (const auto& [archive, why] : cases) {
    Fixture f;
    f.folder.write("copy/a", "old");
    f.store("a.tar", archive);

    EXPECT_THAT(f.download({.overwrite = true}, kTraining),
                IsError(ErrorCode::invalid_response, HasSubstr(why)));
    EXPECT_EQ(f.read("a"), "old");
    EXPECT_FALSE(f.exists("evil"));
    EXPECT_FALSE(f.exists("copy.partial/evil"));
  }
  Fixture f;
  f.store("a.tar", TarArchive().file("a", noise(3000)).bytes());
  EXPECT_THAT(f.download({.max_archive_bytes = 2000}, kTraining),
              IsError(ErrorCode::invalid_response, HasSubstr("limit of 2000")));
}

TEST(Download, ADamagedArchiveIsNotKept) {
  Fixture f;
  const auto good = TarArchive().file("a", noise(3000)).bytes();
  auto bad = good;
  bad[10] = 'x';
  f.store("a.tar", bad);
  ASSERT_THAT(f.download(f.small_parts(), kTraining),
              IsError(ErrorCode::invalid_response, HasSubstr("checksum")));
  f.objects["a.tar"]->content = good;

  EXPECT_THAT(f.download(f.small_parts(), kTraining), IsOk());
}

TEST(Download, SaysWhatToDoWhereThereAreNoArchives) {
  Fixture f;
  f.server->reply("/archive", {{.status = 404}});

  EXPECT_THAT(f.download({}, kTraining),
              IsError(ErrorCode::not_found,
                      AllOf(HasSubstr(kTraining), HasSubstr("save_weights_external"))));
}

TEST(Download, ErrorsOfTheDiskAreSaid) {
  Fixture f;
  f.store("a", "x");
  f.folder.write("file", "text");
  EXPECT_THAT(f.rest().download_checkpoint(kExternal, f.folder.path("file/copy")).get(),
              IsError(ErrorCode::io_error, HasSubstr("file")));
}

}  // namespace
}  // namespace tinker::client::download_test
