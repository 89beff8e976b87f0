#include "server/age.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "server/age_header.h"
#include "server/crypto.h"
#include "support/hex.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::age_test {
namespace {

using testing::from_hex;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Not;

constexpr std::size_t kChunk = std::size_t{64} << 10U;

// Made by pyrage 1.4.0, an implementation in Rust, for two recipients; with a stanza of nonsense,
// as it adds one to every file.
constexpr const char* kGoldenIdentity =
    "AGE-SECRET-KEY-1ZJ74KT598KUSAUZKE638Z3PGWZNS05ZH3JJWM44YFWGHDL8R4KSQ6TQVHG";
constexpr const char* kGoldenRecipient =
    "age1u0asywwau8fwujn509flemjnwkj3jusvt2f7s4qa36gag5ex9deqkqpvul";
constexpr const char* kGoldenHeader =
    "age-encryption.org/v1\n"
    "-> X25519 bOgHZtVtgoj7TmUUiLot4kOJtVFWVzAMD9H6iLEW+jc\n"
    "FlWjLzsr/nT+qzUhWdaUEGnrPNxx6TiQh3ioVRT6cJs\n"
    "-> X25519 KgQuhcn/f4ToJyRTnH3Vl7+h/moitPi2Rmj/VCw2H1c\n"
    "F+784im9FuwD8d3Koi7UAC4lAUdnPaxTMoW8h8j3KO0\n"
    "-> HLumbK)h-grease =2R5M 6:X?*y y(M&)\n"
    "dnGG+UDB5KOvusElJx2xkiTEhB69ilry5kAlbP6gnIKScgb/EtBOOgVqKtHarMmL\n"
    "yQfQaao\n"
    "--- Ny2dsyZvyKytu1IIX2O8AvJq6IWCp/ttHuy4KKHlLKg\n";
constexpr const char* kGoldenPayload =
    "505d1a5ecec2637aef377f86542c0bf03d3aed3dec96c8b3a81c9e8d44418b445198a0cb7764cc6175a4ec000e44ae"
    "6a"
    "614a72591ed8844c25d1bed1418f16e0d835468f310105e8641fe285a4";
constexpr const char* kGoldenText = "The quick brown fox jumps over the lazy dog.\n";
// The same for an empty text.
constexpr const char* kEmptyHeader =
    "age-encryption.org/v1\n"
    "-> X25519 XEcMkySLxkw9XHNKd62mvx5xMvGcgXk6WNsgqz+z9xg\n"
    "siz0NDX6AOZaALL4EaVYgZwP5Ar0LpykH9+ZofaCeFw\n"
    "-> CAav}w-grease\n"
    "u4vo/BuoSCUKwibuBPiu1qWtA2M97MRPlb8bC1hkvh1gDDphTRm2IYM4KPfHnTwj\n"
    "2vesZ/XKY+J+SJ+SeZjd5sj6K8BRIBAQ\n"
    "--- BNbd/UiIqqwG7b9wSc9Yf6pYS96WhaU+wqi9Pjraaig\n";
constexpr const char* kEmptyPayload =
    "cd5c18df3fc4a2f1c1c8265e007c6be346e882c6a9cb92cf15fcdc08c5079ca1";

Secret golden_identity() {
  return Secret(kGoldenIdentity);
}
std::string golden_file() {
  return kGoldenHeader + from_hex(kGoldenPayload);
}

std::string encrypt(std::string_view plain, const std::vector<std::string>& recipients) {
  auto encryptor = AgeEncryptor::create(recipients).value();
  std::string out;
  encryptor.update(plain, out).value();
  encryptor.finish(out).value();
  return out;
}

/// A text that repeats only after a chunk.
std::string long_text(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / kChunk);
  return text;
}

struct Chunk {
  std::string plain = {};
  bool is_last = false;
};
/// A file for the golden identity with just these chunks.
std::string file_of(const std::vector<Chunk>& chunks) {
  const std::string file_key(kAgeFileKeyBytes, 'f');
  const std::string nonce(16, 'n');
  const std::vector<std::string> keys = {parse_age_recipient(kGoldenRecipient).value()};
  std::string out = make_age_header(file_key, keys).value() + nonce;
  const auto key = crypto::hkdf_sha256({.key = file_key, .salt = nonce, .info = "payload"}).value();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    std::string number(12, '\0');
    number[10] = static_cast<char>(i);
    number[11] = chunks[i].is_last ? '\1' : '\0';
    crypto::seal(key, number, chunks[i].plain, out).value();
  }
  return out;
}

auto is_invalid(const char* why) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(why));
}

TEST(AgeIdentity, IsWrittenAsInTheSpecification) {
  // The identity of 32 times 0x42.
  const Secret secret("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX");
  const auto key = parse_age_identity(secret);
  EXPECT_THAT(key, IsOkAndHolds(std::string(32, '\x42')));
  EXPECT_EQ(
      parse_age_recipient("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj").value(),
      crypto::x25519_public(*key).value());
}

TEST(AgeIdentity, IsNewEachTime) {
  const auto a = make_age_identity();
  const auto b = make_age_identity();
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_NE(a->recipient, b->recipient);
  EXPECT_THAT(age_decrypt(encrypt("text", {a->recipient}), a->secret), IsOkAndHolds("text"));
}

TEST(AgeDecrypt, ReadsAFileOfAnotherImplementation) {
  EXPECT_THAT(age_decrypt(golden_file(), golden_identity()), IsOkAndHolds(kGoldenText));
  EXPECT_THAT(age_decrypt(kEmptyHeader + from_hex(kEmptyPayload), golden_identity()),
              IsOkAndHolds(""));
}

TEST(AgeEncryptor, MakesFilesOfAnySizeFromPiecesOfAnySize) {
  for (const std::size_t size : {std::size_t{0},
                                 std::size_t{1},
                                 kChunk - 1,
                                 kChunk,
                                 kChunk + 1,
                                 2 * kChunk,
                                 3 * kChunk + 5}) {
    const std::string plain = long_text(size);
    for (const std::size_t piece : {std::size_t{1000}, kChunk, 4 * kChunk}) {
      auto encryptor = AgeEncryptor::create(std::vector<std::string>{kGoldenRecipient}).value();
      std::string file;
      for (std::size_t at = 0; at < size; at += piece) {
        ASSERT_THAT(encryptor.update(std::string_view(plain).substr(at, piece), file), IsOk());
      }
      ASSERT_THAT(encryptor.finish(file), IsOk());
      const auto opened = age_decrypt(file, golden_identity());
      ASSERT_THAT(opened, IsOk());
      EXPECT_TRUE(*opened == plain) << size << " in pieces of " << piece;
    }
  }
}

TEST(AgeEncryptor, WritesWhatItCanAndKeepsAChunk) {
  auto encryptor = AgeEncryptor::create(std::vector<std::string>{kGoldenRecipient}).value();
  std::string file;
  ASSERT_THAT(encryptor.update("text", file), IsOk());
  EXPECT_THAT(file, ::testing::StartsWith("age-encryption.org/v1\n-> X25519 "));
  const std::size_t head = file.size();
  ASSERT_THAT(encryptor.update(long_text(kChunk), file), IsOk());
  EXPECT_EQ(file.size(), head + kChunk + crypto::kTagBytes);
}

TEST(AgeEncryptor, WritesForEachRecipient) {
  std::vector<std::string> recipients;
  std::vector<Secret> secrets;
  for (int i = 0; i < 10; ++i) {
    auto identity = make_age_identity().value();
    recipients.push_back(identity.recipient);
    secrets.push_back(identity.secret);
  }
  const std::string file = encrypt("text", recipients);
  for (const auto& secret : secrets) EXPECT_THAT(age_decrypt(file, secret), IsOkAndHolds("text"));
}

TEST(AgeEncryptor, NeverMakesTheSameFileTwice) {
  EXPECT_NE(encrypt("text", {kGoldenRecipient}), encrypt("text", {kGoldenRecipient}));
}

TEST(AgeEncryptor, TakesOneToTenRecipients) {
  EXPECT_THAT(AgeEncryptor::create({}), is_invalid("needs a recipient"));
  EXPECT_THAT(AgeEncryptor::create(std::vector<std::string>(11, kGoldenRecipient)),
              is_invalid("at most 10 recipients, not 11"));
}

TEST(AgeEncryptor, RefusesOtherRecipientsByName) {
  struct Case {
    const char* recipient;
    const char* why;
  };
  for (const Case& c :
       {Case{"ssh-ed25519 AAAAC3Nz ada",
             "\"ssh-ed25519 AAAAC3Nz ada\": SSH keys are not supported"},
        Case{"ssh-rsa AAAAB3Nz", "SSH keys are not supported; X25519 keys (\"age1...\") are"},
        Case{"ecdsa-sha2-nistp256 AAAA", "SSH keys are not supported"},
        Case{"", "recipient \"\": it has no prefix"},
        Case{"ada", "recipient \"ada\": it has no prefix"},
        Case{"age1u0asywwau8fwujn509flemjnwkj3jusvt2f7s4qa36gag5ex9deqkqpvuq",
             "its checksum is wrong"},
        Case{"age1tag1qt8lw0ual6avlwmwatk888yqnmdamm7xfd0wak53ut6elz5c4swx2yqdj4e",
             "keys of this kind are not supported"},
        Case{"AGE1U0ASYWWAU8FWUJN509FLEMJNWKJ3JUSVT2F7S4QA36GAG5EX9DEQKQPVUL",
             "keys of this kind are not supported"}}) {
    EXPECT_THAT(AgeEncryptor::create(std::vector<std::string>{kGoldenRecipient, c.recipient}),
                is_invalid(c.why));
  }
}

TEST(AgeEncryptor, RefusesARecipientOfAnotherSize) {
  EXPECT_THAT(AgeEncryptor::create(std::vector<std::string>{"age1qqpexly5"}),
              is_invalid("another length than 32 bytes"));
}

TEST(AgeEncryptor, RefusesARecipientThatAnyoneCouldReadFor) {
  // The key of 32 zeros.
  EXPECT_THAT(AgeEncryptor::create(std::vector<std::string>{
                  "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z"}),
              is_invalid("low order"));
}

TEST(AgeEncryptor, RefusesASecretKeyWithoutShowingIt) {
  EXPECT_THAT(AgeEncryptor::create(std::vector<std::string>{kGoldenIdentity}),
              IsError(ErrorCode::invalid_argument,
                      ::testing::AllOf(HasSubstr("is a secret key"), Not(HasSubstr("ZJ74")))));
}

TEST(AgeDecrypt, RefusesAFileForOthers) {
  const auto other = make_age_identity().value();
  EXPECT_THAT(age_decrypt(golden_file(), other.secret), is_invalid("is not for this key"));
}

TEST(AgeDecrypt, RefusesWhatIsNoIdentityWithoutShowingIt) {
  for (const char* text : {"", "AGE-SECRET-KEY-1ZJ74", kGoldenRecipient}) {
    EXPECT_THAT(age_decrypt(golden_file(), Secret(text)),
                IsError(ErrorCode::invalid_argument,
                        ::testing::AllOf(HasSubstr("unreadable age identity"),
                                         Not(HasSubstr("ZJ74")),
                                         Not(HasSubstr("age1u0")))));
  }
}

TEST(AgeDecrypt, RefusesAFileThatIsCutAnywhere) {
  const std::string file = golden_file();
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(age_decrypt(file.substr(0, size), golden_identity()).ok()) << size;
  }
}

TEST(AgeDecrypt, RefusesAFileOfWhichAnyByteWasChanged) {
  const std::string file = golden_file();
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(age_decrypt(changed, golden_identity()).ok()) << i;
  }
}

TEST(AgeDecrypt, RefusesTrailingBytes) {
  EXPECT_THAT(age_decrypt(golden_file() + "x", golden_identity()), is_invalid("damaged"));
  EXPECT_THAT(age_decrypt(golden_file() + golden_file(), golden_identity()), is_invalid("damaged"));
}

TEST(AgeDecrypt, TakesTheChunksOfAWholeFileAlone) {
  const std::string full = long_text(kChunk);
  EXPECT_THAT(age_decrypt(file_of({{full, false}, {"rest", true}}), golden_identity()),
              IsOkAndHolds(full + "rest"));
  const auto is_damaged = is_invalid("the age file is damaged or cut short");
  const std::vector<std::pair<const char*, std::vector<Chunk>>> cases = {
      {"none", {}},
      {"no last one", {{"text", false}}},
      {"no last one behind a full one", {{full, false}, {full, false}}},
      {"cut at a chunk", {{full, false}}},
      {"two last ones", {{full, true}, {"rest", true}}},
      {"an empty last one", {{full, false}, {"", true}}},
      {"a short one within", {{"text", false}, {"rest", true}}}};
  for (const auto& [what, chunks] : cases) {
    EXPECT_THAT(age_decrypt(file_of(chunks), golden_identity()), is_damaged) << what;
  }
}

TEST(AgeDecrypt, RefusesChunksInAnotherOrder) {
  const std::string file = encrypt(long_text(2 * kChunk + 1), {kGoldenRecipient});
  const std::size_t sealed = kChunk + crypto::kTagBytes;
  const std::size_t first = file.size() - 2 * sealed - 1 - crypto::kTagBytes;
  std::string swapped = file;
  swapped.replace(first, sealed, file, first + sealed, sealed);
  swapped.replace(first + sealed, sealed, file, first, sealed);
  EXPECT_THAT(age_decrypt(swapped, golden_identity()), is_invalid("damaged"));
}

/// The golden file with `from` in its header replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string header = kGoldenHeader;
  header.replace(header.find(from), from.size(), to);
  return header + from_hex(kGoldenPayload);
}

TEST(AgeDecrypt, RefusesAMalformedHeader) {
  const std::string share = "KgQuhcn/f4ToJyRTnH3Vl7+h/moitPi2Rmj/VCw2H1c";
  const std::string body = "F+784im9FuwD8d3Koi7UAC4lAUdnPaxTMoW8h8j3KO0";
  const std::string no_share(43, 'A');
  struct Case {
    std::string file;
    const char* why;
  };
  for (const Case& c : std::vector<Case>{
           {with("/v1\n", "/v2\n"), "does not begin with the line of age v1"},
           {with("/v1\n", "/v1\r\n"), "does not begin with the line of age v1"},
           {"-----BEGIN AGE ENCRYPTED FILE-----\n", "only the binary form is read"},
           {"age-encryption.org/v1\n--- Ny2dsyZvyKytu1IIX2O8AvJq6IWCp/ttHuy4KKHlLKg\n",
            "it has no recipient"},
           {with("-> HLumbK", "->  HLumbK"), "an empty argument"},
           {with("=2R5M ", "=2R5M\x01 "), "not printable"},
           {with("y(M&)", "y(M&) "), "an empty argument"},
           {with("rMmL\n", "rMmLA\n"), "a line that is too long"},
           {with("yQfQaao", "yQfQaao="), "is not base64"},
           {with("yQfQaao", "yQfQaap"), "is not base64"},
           {with("yQfQaao\n", ""), "is not base64"},
           {with("-> HLumbK)", "-- HLumbK)"), "does not end with a MAC"},
           {with("--- N", "---N"), "does not end with a MAC"},
           {with("HlLKg\n", "HlLKg \n"), "the MAC of its header is malformed"},
           {with("HlLKg\n", "HlLKh\n"), "the MAC of its header is malformed"},
           {with("--- Ny", "--- Nz"), "its header was changed"},
           {with("=2R5M", "=2R5N"), "its header was changed"},
           {with(share, share + " x"), "an X25519 stanza is malformed"},
           {with(' ' + share, ""), "an X25519 stanza is malformed"},
           {with(share, share.substr(4)), "an X25519 stanza is malformed"},
           {with(share, "KgQuhcn/f4ToJyRTnH3Vl7+h/moitPi2Rmj/VCw2H1d"), "is malformed"},
           {with(share, no_share), "low order"},
           {with(body, body.substr(4)), "an X25519 stanza is malformed"},
           {with("HLumbK)h-grease", "scrypt"), "is for a passphrase"}}) {
    EXPECT_THAT(age_decrypt(c.file, golden_identity()), is_invalid(c.why)) << c.file;
  }
}

}  // namespace
}  // namespace tinker::server::age_test
