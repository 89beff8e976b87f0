#include "client/checksum.h"

#include <algorithm>

#include <fcntl.h>

#include "base/crc32c.h"
#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/md5.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "http/ascii.h"
#include "wire/base64.h"

namespace tinker::client {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20U;

std::size_t bytes_of(Checksum kind) noexcept {
  switch (kind) {
    case Checksum::none: break;
    case Checksum::crc32c: return 4;
    case Checksum::md5: return 16;
    case Checksum::sha256: return 32;
  }
  return 0;
}

Checksum kind_of(std::string_view name) {
  const auto lower = http::ascii::to_lower(name);
  if (lower == "sha-256" || lower == "sha256") return Checksum::sha256;
  if (lower == "md5") return Checksum::md5;
  if (lower == "crc32c") return Checksum::crc32c;
  return Checksum::none;
}

/// Keeps the strongest that can be read. A value that cannot, such as the "hash of hashes" of an
/// object that was uploaded in parts, says nothing.
void consider(ExpectedChecksum& best, Checksum kind, std::string_view base64) {
  if (kind <= best.kind) return;
  auto bytes = wire::from_base64(base64);
  if (bytes && bytes->size() == bytes_of(kind)) best = {.kind = kind, .bytes = *std::move(bytes)};
}

/// "crc32c=n03x6A==,md5=Ojk9c3dhfxgoKVVHYwFbHQ==", with or without colons around the values.
void consider_list(ExpectedChecksum& best, std::string_view list) {
  while (!list.empty()) {
    const auto item = http::ascii::trim(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(list.find(','), list.size() - 1) + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) continue;
    auto value = item.substr(equals + 1);
    if (value.size() >= 2 && value.front() == ':' && value.back() == ':') {
      value = value.substr(1, value.size() - 2);
    }
    consider(best, kind_of(item.substr(0, equals)), value);
  }
}

/// Hashes by one of the kinds.
class Hasher {
 public:
  explicit Hasher(Checksum kind) : kind_(kind) {}

  void update(std::string_view bytes) {
    if (kind_ == Checksum::sha256) sha256_.update(bytes);
    if (kind_ == Checksum::md5) md5_.update(bytes);
    if (kind_ == Checksum::crc32c) crc32c_ = base::crc32c(bytes, crc32c_);
  }
  std::string finish() {
    if (kind_ == Checksum::sha256) return sha256_.finish();
    if (kind_ == Checksum::md5) return md5_.finish();
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(crc32c_ >> shift & 0xffU);
    return out;
  }

 private:
  Checksum kind_;
  base::Sha256 sha256_ = {};
  base::Md5 md5_ = {};
  std::uint32_t crc32c_ = 0;
};

}  // namespace

std::string_view to_string(Checksum kind) noexcept {
  switch (kind) {
    case Checksum::none: break;
    case Checksum::crc32c: return "CRC-32C";
    case Checksum::md5: return "MD5";
    case Checksum::sha256: return "SHA-256";
  }
  return "none";
}

ExpectedChecksum find_checksum(const http::Headers& headers, bool is_whole) {
  using http::same_name;
  ExpectedChecksum best;
  // Google unpacks objects that are stored packed, and sends the hash of what is stored.
  const auto stored = headers.find("x-goog-stored-content-encoding").value_or("identity");
  for (const auto& [name, value] : headers) {
    const bool is_googles = same_name(name, "x-goog-hash") && stored == "identity";
    if (is_googles || same_name(name, "repr-digest") || same_name(name, "digest")) {
      consider_list(best, value);
    } else if (same_name(name, "x-amz-checksum-sha256")) {
      consider(best, Checksum::sha256, value);
    } else if (same_name(name, "x-amz-checksum-crc32c")) {
      consider(best, Checksum::crc32c, value);
    } else if (same_name(name, "x-ms-blob-content-md5") ||
               (same_name(name, "content-md5") && is_whole)) {  // else that of the part
      consider(best, Checksum::md5, value);
    }
  }
  return best;
}

Result<void> verify_checksum(const std::string& path,
                             const ExpectedChecksum& expected,
                             const std::atomic<bool>& stop) {
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) return base::system_error("open", path);
  Hasher hasher(expected.kind);
  std::string buffer(kReadBytes, '\0');
  while (true) {
    if (stop) return Error{.code = ErrorCode::cancelled, .message = "the download was stopped"};
    TINKER_TRY(const auto piece, read_some(file, buffer, path));
    if (piece.empty()) break;
    hasher.update(piece);
  }
  const std::string found = hasher.finish();
  if (found == expected.bytes) return {};
  return Error{.code = ErrorCode::conflict,
               .message = base::concat("the ",
                                       to_string(expected.kind),
                                       " checksum does not match: storage says ",
                                       wire::to_base64(expected.bytes),
                                       ", the file has ",
                                       wire::to_base64(found))};
}

}  // namespace tinker::client
