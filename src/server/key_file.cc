#include "server/key_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file_descriptor.h"
#include "base/files.h"
#include "base/strings.h"
#include "http/ascii.h"

namespace tinker::server {
namespace {

namespace ascii = http::ascii;

constexpr std::string_view kKeyPrefix = "tml-";
constexpr std::size_t kMinKey = 20;
constexpr std::size_t kMaxKey = 256;
constexpr std::size_t kMaxOwner = 64;
constexpr std::size_t kMaxFile = std::size_t{1} << 20U;

bool may_be_in_owner(char c) noexcept {
  return ascii::is_alnum(c) || std::string_view("._-@").find(c) != std::string_view::npos;
}
bool may_be_in_key(char c) noexcept {
  return ascii::is_alnum(c) || std::string_view("._-~+/=").find(c) != std::string_view::npos;
}

/// The first word of `line`, which loses it and the blanks around it.
std::string_view take_word(std::string_view& line) {
  line = ascii::trim(line);
  const auto word = line.substr(0, line.find_first_of(" \t"));
  line = ascii::trim(line.substr(word.size()));
  return word;
}

std::string_view without_comment(std::string_view line) {
  for (std::size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    if (at == 0 || ascii::is_space(line[at - 1])) return line.substr(0, at);
  }
  return line;
}

Result<ServedKey> parse_line(std::string_view line) {
  const auto owner = take_word(line);
  const auto key = take_word(line);
  if (key.empty() || !line.empty()) return Error::invalid_argument("expected \"OWNER KEY\"");
  ServedKey out = {.owner = std::string(owner), .key = Secret(std::string(key))};
  TINKER_TRY(check_key(out));
  return out;
}

Result<void> check_mode(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode))
    return Error::invalid_argument(base::concat("key file ", path, ": not a regular file"));
  if ((info.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) == 0) return {};
  std::array<char, 8> mode = {};
  std::to_chars(mode.data(), mode.data() + mode.size(), info.st_mode & 0777U, 8);
  return Error::invalid_argument(
      base::concat("key file ",
                   path,
                   ": others than its owner can read or write it (mode 0",
                   mode.data(),
                   "); run: chmod 600 ",
                   path));
}

}  // namespace

Result<void> check_key(const ServedKey& key) {
  const std::string_view owner = key.owner;
  const std::string_view text = key.key.expose();
  if (owner.starts_with(kKeyPrefix))
    return Error::invalid_argument("the owner looks like a key; it comes first");
  if (owner.empty() || owner.size() > kMaxOwner || !std::ranges::all_of(owner, may_be_in_owner)) {
    return Error::invalid_argument(base::concat(
        "an owner is 1 to ", kMaxOwner, " letters, digits, '.', '_', '-' or '@' of ASCII"));
  }
  if (!text.starts_with(kKeyPrefix)) {
    return Error::invalid_argument(
        base::concat("the key does not begin with \"", kKeyPrefix, "\""));
  }
  if (text.size() < kMinKey || text.size() > kMaxKey) {
    return Error::invalid_argument(base::concat(
        "the key has ", text.size(), " characters instead of ", kMinKey, " to ", kMaxKey));
  }
  if (!std::ranges::all_of(text, may_be_in_key)) {
    return Error::invalid_argument(
        "the key has other characters than letters, digits and \"._-~+/=\"");
  }
  return {};
}

Result<std::vector<ServedKey>> parse_key_file(std::string_view text) {
  std::vector<ServedKey> keys;
  std::map<std::string, std::size_t, std::less<>> lines;  // of keys
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto content = ascii::trim(without_comment(line));
    if (content.empty()) continue;
    auto key = parse_line(content);
    if (!key) return std::move(key).error().with_context(base::concat("line ", number));
    const auto [found, is_new] = lines.emplace(key->key.expose(), number);
    if (!is_new) {
      return Error::invalid_argument(base::concat("the key is that of line ", found->second))
          .with_context(base::concat("line ", number));
    }
    keys.push_back(*std::move(key));
  }
  if (keys.empty())
    return Error::invalid_argument("there is no key in it; a line is \"OWNER KEY\"");
  return keys;
}

Result<std::vector<ServedKey>> read_key_file(const std::filesystem::path& file) {
  const std::string& path = file.native();
  // Opening a pipe would wait for its writer.
  const base::FileDescriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!opened.is_open() || ::fstat(opened.get(), &info) != 0) {
    return base::system_error("open key file", path);
  }
  TINKER_TRY(check_mode(info, path));
  std::string text;
  std::string buffer(std::size_t{16} << 10U, '\0');
  while (true) {
    TINKER_TRY(const auto piece, base::read_some(opened, buffer, path));
    if (piece.empty()) break;
    text += piece;
    if (text.size() > kMaxFile) {
      return Error::invalid_argument(
          base::concat("key file ", path, ": more than ", kMaxFile, " bytes"));
    }
  }
  auto keys = parse_key_file(text);
  if (!keys) return std::move(keys).error().with_context(base::concat("key file ", path));
  return keys;
}

}  // namespace tinker::server
