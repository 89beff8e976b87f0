#include "server/age.h"

#include <array>
#include <cstdint>
#include <utility>

#include "base/strings.h"
#include "server/age_header.h"
#include "server/bech32.h"
#include "server/crypto.h"
#include "tinker/check.h"

// After the header come a nonce and the text in chunks of 64 KiB, each sealed with the next number
// as its nonce, the last one marked: so none can be left out, moved or added.
namespace tinker::server {
namespace {

constexpr std::size_t kMaxRecipients = 10;
constexpr std::size_t kFileNonceBytes = 16;
constexpr std::size_t kChunkBytes = std::size_t{64} << 10U;
constexpr std::size_t kSealedChunkBytes = kChunkBytes + crypto::kTagBytes;

Result<std::string> payload_key(std::string_view file_key, std::string_view nonce) {
  return crypto::hkdf_sha256({.key = file_key, .salt = nonce, .info = "payload"});
}

/// The number of a chunk, big-endian, and whether it is the last one.
std::string chunk_nonce(std::uint64_t number, bool is_last) {
  std::string nonce(crypto::kNonceBytes, '\0');
  nonce.back() = is_last ? '\1' : '\0';
  for (std::size_t at = nonce.size() - 2; number != 0; --at, number >>= 8U) {
    nonce[at] = static_cast<char>(number & 0xffU);
  }
  return nonce;
}

}  // namespace

struct AgeEncryptor::Parts {
  std::string head;  // what precedes the chunks, until it is written
  std::string key;
  std::uint64_t chunks = 0;
  std::string pending = {};  // at most a chunk, which may be the last one
  bool is_finished = false;

  Result<void> seal_pending(bool is_last, std::string& out) {
    TINKER_TRY(crypto::seal(key, chunk_nonce(chunks, is_last), pending, out));
    ++chunks;
    pending.clear();
    return {};
  }
};

AgeEncryptor::AgeEncryptor(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
AgeEncryptor::AgeEncryptor(AgeEncryptor&&) noexcept = default;
AgeEncryptor& AgeEncryptor::operator=(AgeEncryptor&&) noexcept = default;
AgeEncryptor::~AgeEncryptor() = default;

Result<AgeEncryptor> AgeEncryptor::create(std::span<const std::string> recipients) {
  if (recipients.empty())
    return Error::invalid_argument("an age file needs a recipient, \"age1...\"");
  if (recipients.size() > kMaxRecipients) {
    return Error::invalid_argument(base::concat(
        "an age file has at most ", kMaxRecipients, " recipients, not ", recipients.size()));
  }
  std::vector<std::string> public_keys;
  for (const auto& text : recipients) {
    TINKER_TRY(auto key, parse_age_recipient(text));
    public_keys.push_back(std::move(key));
  }
  TINKER_TRY(const std::string file_key, crypto::random_bytes(kAgeFileKeyBytes));
  TINKER_TRY(const std::string header, make_age_header(file_key, public_keys));
  TINKER_TRY(const std::string nonce, crypto::random_bytes(kFileNonceBytes));
  TINKER_TRY(std::string key, payload_key(file_key, nonce));
  return AgeEncryptor(
      std::make_unique<Parts>(Parts{.head = base::concat(header, nonce), .key = std::move(key)}));
}

Result<void> AgeEncryptor::update(std::string_view plain, std::string& out) {
  TINKER_CHECK(!parts_->is_finished);
  out += std::exchange(parts_->head, {});
  std::string& pending = parts_->pending;
  while (!plain.empty()) {
    if (pending.size() == kChunkBytes) {
      TINKER_TRY(parts_->seal_pending(false, out));
    }
    const auto piece = plain.substr(0, kChunkBytes - pending.size());
    pending += piece;
    plain.remove_prefix(piece.size());
  }
  return {};
}

Result<void> AgeEncryptor::finish(std::string& out) {
  TINKER_TRY(update({}, out));
  parts_->is_finished = true;
  return parts_->seal_pending(true, out);
}

Result<AgeIdentity> make_age_identity() {
  TINKER_TRY(const std::string secret, crypto::random_bytes(crypto::kKeyBytes));
  TINKER_TRY(const std::string public_key, crypto::x25519_public(secret));
  return AgeIdentity{.secret = Secret(to_bech32({.prefix = "AGE-SECRET-KEY-", .bytes = secret})),
                     .recipient = to_bech32({.prefix = "age", .bytes = public_key})};
}

Result<std::string> age_decrypt(std::string_view file, const Secret& identity) {
  TINKER_TRY(const std::string secret_key, parse_age_identity(identity));
  TINKER_TRY(const AgeHeader header, open_age_header(file, secret_key));
  std::string_view rest = file.substr(header.size);
  const auto damaged = [] {
    return Error::invalid_argument("the age file is damaged or cut short");
  };
  if (rest.size() < kFileNonceBytes) return damaged();
  TINKER_TRY(const std::string key, payload_key(header.file_key, rest.substr(0, kFileNonceBytes)));
  rest.remove_prefix(kFileNonceBytes);

  std::string plain;
  for (std::uint64_t number = 0;; ++number) {
    const bool is_last = rest.size() <= kSealedChunkBytes;
    const auto chunk = rest.substr(0, kSealedChunkBytes);
    // Only a file without any text has an empty chunk.
    if (number != 0 && chunk.size() <= crypto::kTagBytes) return damaged();
    const auto opened = crypto::open(key, chunk_nonce(number, is_last), chunk, plain);
    if (!opened.ok()) {
      return opened.error().code == ErrorCode::invalid_argument ? damaged() : opened.error();
    }
    if (is_last) return plain;
    rest.remove_prefix(chunk.size());
  }
}

}  // namespace tinker::server
