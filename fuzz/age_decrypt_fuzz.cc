#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/age.h"
#include "server/age_header.h"
#include "server/bech32.h"
#include "tinker/check.h"

namespace {

using namespace tinker;
using namespace tinker::server;

void check_key(std::string_view text) {
  const auto key = from_bech32(text);
  if (key.ok()) TINKER_CHECK(to_bech32(*key) == text);
}

}  // namespace

// The input as a file, as the payload behind a good header, as a text to be encrypted, and as a
// key.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const AgeIdentity identity = {
      .secret =
          Secret("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"),
      .recipient = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"};
  static const std::string header = [] {
    const std::vector<std::string> keys = {*parse_age_recipient(identity.recipient)};
    return *make_age_header(std::string(kAgeFileKeyBytes, 'f'), keys);
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_key(text);
  // Whatever a stranger could write without the key is refused.
  TINKER_CHECK(!age_decrypt(header + std::string(text), identity.secret).ok());
  const auto plain = age_decrypt(text, identity.secret);
  if (!plain.ok()) TINKER_CHECK(plain.error().code == ErrorCode::invalid_argument);

  auto encryptor = AgeEncryptor::create({&identity.recipient, 1});
  TINKER_CHECK(encryptor.ok());
  std::string file;
  TINKER_CHECK(encryptor->update(text, file).ok());
  TINKER_CHECK(encryptor->finish(file).ok());
  const auto again = age_decrypt(file, identity.secret);
  TINKER_CHECK(again.ok() && *again == text);
  return 0;
}
