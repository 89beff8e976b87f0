#include "formats/tar_writer.h"

#include <array>
#include <cstdio>

#include "base/strings.h"

namespace tinker::formats {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kMaxName = 100;
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 33U;  // eleven octal digits

// Where the fields of a header are (POSIX.1-1988).
constexpr std::size_t kModeAt = 100;
constexpr std::size_t kOwnerAt = 108;
constexpr std::size_t kGroupAt = 116;
constexpr std::size_t kSizeAt = 124;
constexpr std::size_t kTimeAt = 136;
constexpr std::size_t kChecksumAt = 148;
constexpr std::size_t kTypeAt = 156;
constexpr std::size_t kMagicAt = 257;

/// `digits` octal digits and a NUL.
void put_octal(std::string& header, std::size_t at, int digits, std::uint64_t value) {
  std::array<char, 24> text = {};
  std::snprintf(text.data(), text.size(), "%0*llo", digits, static_cast<unsigned long long>(value));
  header.replace(at, static_cast<std::size_t>(digits), text.data());
}

}  // namespace

Result<std::string> tar_file_header(std::string_view name, std::uint64_t size) {
  if (name.empty() || name.size() > kMaxName || size >= kMaxSize) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat(
                     "tar: expected a name of 1 to 100 bytes and less than 8 GiB, found '",
                     name,
                     "' with ",
                     size,
                     " bytes")};
  }
  std::string out(kBlock, '\0');
  out.replace(0, name.size(), name);
  put_octal(out, kModeAt, 7, 0644);
  put_octal(out, kOwnerAt, 7, 0);
  put_octal(out, kGroupAt, 7, 0);
  put_octal(out, kSizeAt, 11, size);
  put_octal(out, kTimeAt, 11, 0);
  out.replace(kChecksumAt, 8, 8, ' ');  // counts as blanks
  out[kTypeAt] = '0';
  out.replace(kMagicAt, 8, std::string_view("ustar\00000", 8));
  std::uint64_t sum = 0;
  for (const char c : out) sum += static_cast<unsigned char>(c);
  put_octal(out, kChecksumAt, 6, sum);
  out[kChecksumAt + 6] = '\0';
  return out;
}

std::string tar_padding(std::uint64_t size) {
  std::string out((kBlock - size % kBlock) % kBlock, '\0');
  return out;
}

std::string tar_end() {
  std::string out(2 * kBlock, '\0');
  return out;
}

}  // namespace tinker::formats
