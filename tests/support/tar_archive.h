#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace tinker::testing {

/// What goes into the header of an entry; text is put in as it is, however wrong.
struct TarHeader {
  std::string name = {};
  char type = '0';
  std::string size = {};  ///< Default: that of the content, in octal.
  std::string link = {};
  std::string magic = std::string(
      "ustar\0"
      "00",
      8);
  std::string prefix = {};
};

/// Builds archives, good and bad ones.
class TarArchive {
 public:
  TarArchive& add(TarHeader header, std::string_view content = {}) {
    std::string block(512, '\0');
    const auto put = [&block](std::size_t at, std::string_view text) {
      block.replace(at, text.size(), text);
    };
    put(0, header.name);
    put(100, "0000644");
    std::array<char, 13> size = {};
    std::snprintf(size.data(), size.size(), "%011zo", content.size());
    put(124, header.size.empty() ? std::string_view(size.data(), 11) : header.size);
    put(148, "        ");
    block[156] = header.type;
    put(157, header.link);
    put(257, header.magic);
    put(345, header.prefix);
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    std::array<char, 8> checksum = {};
    std::snprintf(checksum.data(), checksum.size(), "%06o", sum);
    put(148, std::string_view(checksum.data(), 8));
    bytes_ += block;
    bytes_ += content;
    bytes_.resize((bytes_.size() + 511) / 512 * 512, '\0');
    return *this;
  }
  TarArchive& file(std::string name, std::string_view content) {
    return add({.name = std::move(name)}, content);
  }
  /// A pax header for the entry that follows.
  TarArchive& pax(std::string_view key, std::string_view value) {
    const std::string rest = " " + std::string(key) + "=" + std::string(value) + "\n";
    std::size_t size = rest.size() + 1;
    while (std::to_string(size).size() + rest.size() != size) ++size;
    return add({.name = "pax", .type = 'x'}, std::to_string(size) + rest);
  }

  /// Without its end.
  [[nodiscard]] const std::string& unfinished() const { return bytes_; }
  [[nodiscard]] std::string bytes() const { return bytes_ + std::string(1024, '\0'); }

 private:
  std::string bytes_ = {};
};

}  // namespace tinker::testing
