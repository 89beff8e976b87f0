#include "server/age_header.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/relative_path.h"
#include "base/strings.h"
#include "http/ascii.h"
#include "server/bech32.h"
#include "server/crypto.h"
#include "wire/base64.h"

// A header is lines of text:
//
//     age-encryption.org/v1
//     -> X25519 EPHEMERAL_SHARE         a stanza for each recipient: its arguments,
//     WRAPPED_FILE_KEY                  and a body in lines of 64 characters, the last one shorter
//     --- MAC                           of all up to these dashes
namespace tinker::server {
namespace {

constexpr std::string_view kVersionLine = "age-encryption.org/v1\n";
constexpr std::string_view kStanzaMark = "-> ";
constexpr std::string_view kMacMark = "---";
constexpr std::string_view kX25519 = "X25519";
constexpr std::string_view kWrapLabel = "age-encryption.org/v1/X25519";
constexpr std::string_view kRecipientPrefix = "age";
constexpr std::string_view kIdentityPrefix = "AGE-SECRET-KEY-";
constexpr std::size_t kWrappedBytes = kAgeFileKeyBytes + crypto::kTagBytes;
constexpr std::size_t kColumns = 64;
// A wrap key is used once, so its nonce need not differ.
constexpr std::string_view kNoNonce("\0\0\0\0\0\0\0\0\0\0\0\0", crypto::kNonceBytes);

struct Stanza {
  std::vector<std::string_view> arguments = {};
  std::string body = {};
};

Error unreadable(std::string_view why) {
  return Error::invalid_argument(base::concat("not a whole age file: ", why));
}

std::string to_raw_base64(std::string_view bytes) {
  std::string text = wire::to_base64(bytes);
  text.resize(text.find_last_not_of('=') + 1);
  return text;
}

std::optional<std::string> from_raw_base64(std::string_view text) {
  if (text.ends_with('=')) return std::nullopt;
  std::string padded(text);
  padded.resize((text.size() + 3) / 4 * 4, '=');
  return wire::from_base64(padded);
}

Result<std::string> wrap_key(std::string_view shared_secret,
                             std::string_view share,
                             std::string_view public_key) {
  const std::string salt = base::concat(share, public_key);
  return crypto::hkdf_sha256({.key = shared_secret, .salt = salt, .info = kWrapLabel});
}

Result<std::string> header_mac(std::string_view file_key, std::string_view header) {
  TINKER_TRY(const std::string key, crypto::hkdf_sha256({.key = file_key, .info = "header"}));
  return crypto::hmac_sha256(key, header);
}

Result<void> add_stanza(std::string_view file_key, std::string_view public_key, std::string& out) {
  TINKER_TRY(const std::string secret, crypto::random_bytes(crypto::kKeyBytes));
  TINKER_TRY(const std::string share, crypto::x25519_public(secret));
  TINKER_TRY(const std::string shared, crypto::x25519(secret, public_key));
  TINKER_TRY(const std::string key, wrap_key(shared, share, public_key));
  std::string body;
  TINKER_TRY(crypto::seal(key, kNoNonce, file_key, body));
  out += base::concat(
      kStanzaMark, kX25519, ' ', to_raw_base64(share), '\n', to_raw_base64(body), '\n');
  return {};
}

/// The next line of `rest`, without its end.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

Result<std::vector<std::string_view>> split_arguments(std::string_view line) {
  const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
  std::vector<std::string_view> arguments;
  while (true) {
    const auto argument = line.substr(0, line.find(' '));
    if (argument.empty() || !std::ranges::all_of(argument, is_visible)) {
      return unreadable("a stanza has an empty argument or one that is not printable");
    }
    arguments.push_back(argument);
    if (argument.size() == line.size()) return arguments;
    line.remove_prefix(argument.size() + 1);
  }
}

/// What follows "-> ".
Result<Stanza> take_stanza(std::string_view& rest) {
  const auto first = take_line(rest);
  if (!first) return unreadable("it ends within its header");
  TINKER_TRY(auto arguments, split_arguments(*first));
  std::string text;
  while (true) {
    const auto line = take_line(rest);
    if (!line) return unreadable("it ends within its header");
    if (line->size() > kColumns) return unreadable("a stanza has a line that is too long");
    text += *line;
    if (line->size() < kColumns) break;
  }
  auto body = from_raw_base64(text);
  if (!body) return unreadable("the body of a stanza is not base64");
  return Stanza{.arguments = std::move(arguments), .body = *std::move(body)};
}

/// The file key, where the stanza is for that key.
Result<std::optional<std::string>> unwrap(const Stanza& stanza, std::string_view secret_key) {
  if (stanza.arguments[0] != kX25519) return std::optional<std::string>();
  const auto share =
      stanza.arguments.size() == 2 ? from_raw_base64(stanza.arguments[1]) : std::nullopt;
  if (!share || share->size() != crypto::kKeyBytes || stanza.body.size() != kWrappedBytes) {
    return unreadable("an X25519 stanza is malformed");
  }
  TINKER_TRY(const std::string public_key, crypto::x25519_public(secret_key));
  const auto shared = crypto::x25519(secret_key, *share);
  if (!shared) return shared.error().with_context("X25519 stanza of the age file");
  TINKER_TRY(const std::string key, wrap_key(*shared, *share, public_key));
  std::string file_key;
  if (const auto opened = crypto::open(key, kNoNonce, stanza.body, file_key); !opened.ok()) {
    if (opened.error().code != ErrorCode::invalid_argument) return opened.error();
    return std::optional<std::string>();
  }
  return std::optional(std::move(file_key));
}

/// The file key, from the first stanza that is for that key.
Result<std::string> find_file_key(const std::vector<Stanza>& stanzas, std::string_view secret_key) {
  const auto is_scrypt = [](const Stanza& stanza) { return stanza.arguments[0] == "scrypt"; };
  if (std::ranges::any_of(stanzas, is_scrypt)) {
    return Error::invalid_argument("the age file is for a passphrase, not for X25519 keys");
  }
  std::optional<std::string> found;
  for (const Stanza& stanza : stanzas) {
    // The others have to be well-formed, too.
    TINKER_TRY(auto file_key, unwrap(stanza, secret_key));
    if (file_key && !found) found = std::move(file_key);
  }
  if (!found) return Error::invalid_argument("the age file is not for this key");
  return *std::move(found);
}

}  // namespace

Result<std::string> parse_age_recipient(std::string_view text) {
  constexpr std::string_view kSupported = "X25519 keys (\"age1...\") are supported";
  if (http::ascii::to_lower(text).starts_with("age-secret-key-")) {
    return Error::invalid_argument("a recipient is a secret key; give its public key, \"age1...\"");
  }
  const auto refuse = [text](std::string_view why) {
    return Error::invalid_argument(base::concat("recipient ", base::quoted(text), ": ", why));
  };
  if (text.starts_with("ssh-") || text.starts_with("ecdsa-") || text.starts_with("sk-")) {
    return refuse(base::concat("SSH keys are not supported; ", kSupported));
  }
  auto key = from_bech32(text);
  if (!key) return refuse(base::concat(key.error().message, "; ", kSupported));
  if (key->prefix != kRecipientPrefix) {
    return refuse(base::concat("keys of this kind are not supported; ", kSupported));
  }
  if (key->bytes.size() != crypto::kKeyBytes) return refuse("it has another length than 32 bytes");
  return std::move(key->bytes);
}

Result<std::string> parse_age_identity(const Secret& identity) {
  auto key = from_bech32(identity.expose());
  if (!key)
    return Error::invalid_argument(base::concat("unreadable age identity: ", key.error().message));
  if (key->prefix != kIdentityPrefix || key->bytes.size() != crypto::kKeyBytes) {
    return Error::invalid_argument("unreadable age identity: expected \"AGE-SECRET-KEY-1...\"");
  }
  return std::move(key->bytes);
}

Result<std::string> make_age_header(std::string_view file_key,
                                    std::span<const std::string> public_keys) {
  std::string header(kVersionLine);
  for (const auto& key : public_keys) {
    if (auto added = add_stanza(file_key, key, header); !added.ok()) {
      const std::string recipient =
          to_bech32({.prefix = std::string(kRecipientPrefix), .bytes = key});
      return std::move(added).error().with_context(base::concat("recipient ", recipient));
    }
  }
  header += kMacMark;
  TINKER_TRY(const std::string mac, header_mac(file_key, header));
  return base::concat(header, ' ', to_raw_base64(mac), '\n');
}

Result<AgeHeader> open_age_header(std::string_view file, std::string_view secret_key) {
  if (file.starts_with("-----BEGIN AGE")) {
    return Error::invalid_argument("the age file is armored; only the binary form is read");
  }
  std::string_view rest = file;
  if (!rest.starts_with(kVersionLine))
    return unreadable("it does not begin with the line of age v1");
  rest.remove_prefix(kVersionLine.size());
  std::vector<Stanza> stanzas;
  while (rest.starts_with(kStanzaMark)) {
    rest.remove_prefix(kStanzaMark.size());
    TINKER_TRY(auto stanza, take_stanza(rest));
    stanzas.push_back(std::move(stanza));
  }
  const auto authentic = file.substr(0, file.size() - rest.size() + kMacMark.size());
  const auto line = take_line(rest);
  if (!line || !line->starts_with(base::concat(kMacMark, ' '))) {
    return unreadable("its header does not end with a MAC");
  }
  const auto mac = from_raw_base64(line->substr(kMacMark.size() + 1));
  if (!mac || mac->size() != crypto::kKeyBytes)
    return unreadable("the MAC of its header is malformed");
  if (stanzas.empty()) return unreadable("it has no recipient");

  TINKER_TRY(std::string file_key, find_file_key(stanzas, secret_key));
  TINKER_TRY(const std::string expected, header_mac(file_key, authentic));
  if (!crypto::equal(*mac, expected)) return unreadable("its header was changed");
  return AgeHeader{.file_key = std::move(file_key), .size = file.size() - rest.size()};
}

}  // namespace tinker::server
