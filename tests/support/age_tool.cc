// Encrypts and decrypts age files, so that tests can hold ours beside those of other programs:
//
//     age_tool keygen                    the identity and its recipient, a line each
//     age_tool encrypt RECIPIENT...      from standard input to standard output
//     age_tool decrypt IDENTITY          the same
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "server/age.h"

namespace {

using namespace tinker;

Result<std::string> encrypt(const std::vector<std::string>& recipients, std::string_view plain) {
  TINKER_TRY(auto encryptor, server::AgeEncryptor::create(recipients));
  std::string out;
  TINKER_TRY(encryptor.update(plain, out));
  TINKER_TRY(encryptor.finish(out));
  return out;
}

Result<std::string> keygen() {
  TINKER_TRY(const auto identity, server::make_age_identity());
  return identity.secret.expose() + '\n' + identity.recipient + '\n';
}

Result<std::string> run(const std::string& command, const std::vector<std::string>& arguments) {
  if (command == "keygen" && arguments.empty()) return keygen();
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  if (command == "encrypt") return encrypt(arguments, input);
  if (command == "decrypt" && arguments.size() == 1) {
    return server::age_decrypt(input, Secret(arguments[0]));
  }
  return Error{.code = ErrorCode::invalid_argument,
               .message = "usage: age_tool keygen | encrypt RECIPIENT... | decrypt IDENTITY"};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto done =
      arguments.empty() ? run({}, {}) : run(arguments[0], {arguments.begin() + 1, arguments.end()});
  if (!done.ok()) {
    std::cerr << done.error().to_string() << '\n';
    return 1;
  }
  std::cout << *done;
}
