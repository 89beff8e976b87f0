#include "formats/tar.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/relative_path.h"
#include "base/strings.h"

namespace tinker::formats {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMaxMeta = std::uint64_t{1} << 20U;
constexpr auto kFile = TarEntry::Kind::file;
constexpr auto kFolder = TarEntry::Kind::folder;

Error broken(std::string_view why) {
  return {.code = ErrorCode::invalid_response,
          .message = base::concat("the archive is damaged: ", why)};
}

Error refused(std::string_view name, std::string_view why) {
  return {.code = ErrorCode::invalid_response,
          .message = base::concat("the archive holds ", base::quoted(name), ", ", why)};
}

/// Text in a field of fixed size: up to a NUL, if there is one.
std::string_view text_of(std::string_view field) {
  return field.substr(0, field.find('\0'));
}

/// Octal digits among spaces and NULs, or, with the first bit set, a binary number (GNU).
std::optional<std::uint64_t> number_of(std::string_view field) {
  std::uint64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
    if (field[0] != '\x80') return std::nullopt;  // negative, or longer than any file
    for (const char c : field.substr(1)) {
      if (value >> 56U != 0) return std::nullopt;
      value = value << 8U | static_cast<unsigned char>(c);
    }
    return value;
  }
  const auto begin = std::min(field.find_first_not_of(' '), field.size());
  field.remove_prefix(begin);
  const auto digits = field.substr(0, field.find_first_not_of("01234567"));
  if (field.find_first_not_of(std::string_view(" \0", 2), digits.size()) !=
      std::string_view::npos) {
    return std::nullopt;
  }
  for (const char c : digits) value = value << 3U | static_cast<unsigned>(c - '0');
  return value;
}

bool has_valid_checksum(std::string_view header) {
  constexpr std::size_t kAt = 148;
  constexpr std::size_t kSize = 8;
  std::uint64_t sum = kSize * std::uint64_t{' '};
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (i < kAt || i >= kAt + kSize) sum += static_cast<unsigned char>(header[i]);
  }
  return number_of(header.substr(kAt, kSize)) == sum;
}

std::string name_of(std::string_view header) {
  const auto name = text_of(header.substr(0, 100));
  const auto prefix = text_of(header.substr(345, 155));
  const bool is_posix = header.substr(257, 6) == std::string_view("ustar\0", 6);
  if (!is_posix || prefix.empty()) return std::string(name);
  return base::concat(prefix, "/", name);
}

std::string_view kind_of(char type) {
  switch (type) {
    case '1': return "a hard link: links are refused";
    case '2': return "a symbolic link: links are refused";
    case '3':
    case '4': return "a device";
    case '6': return "a pipe";
    case 'S': return "a sparse file, which is not supported";
    default: return "an entry of unknown kind";
  }
}

bool is_file(char type) {
  return type == '0' || type == '\0' || type == '7';
}

/// Those that say something about the next entry, or about all.
bool is_meta(char type) {
  return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

}  // namespace

Result<void> TarReader::put(std::string_view bytes) {
  read_ += bytes.size();
  if (read_ > limits_.max_bytes) {
    return Error{.code = ErrorCode::invalid_response,
                 .message = base::concat(
                     "the archive is longer than the limit of ", limits_.max_bytes, " bytes")};
  }
  while (!bytes.empty()) {
    const auto take = [&bytes](std::uint64_t most) {
      const auto piece =
          bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(most, bytes.size())));
      bytes.remove_prefix(piece.size());
      return piece;
    };
    switch (phase_) {
      case Phase::header:
        header_ += take(kBlock - header_.size());
        if (header_.size() < kBlock) return {};
        TINKER_TRY(read_header());
        header_.clear();
        break;
      case Phase::meta: {
        const auto piece = take(left_);
        meta_ += piece;
        left_ -= piece.size();
        if (left_ > 0) break;
        TINKER_TRY(read_meta());
        break;
      }
      case Phase::content: {
        const auto piece = take(left_);
        left_ -= piece.size();
        TINKER_TRY(sink_.write(piece));
        if (left_ > 0) break;
        TINKER_TRY(end_entry());
        break;
      }
      case Phase::padding:
        padding_ -= take(padding_).size();
        if (padding_ == 0) phase_ = Phase::header;
        break;
      case Phase::ended:
        if (bytes.find_first_not_of('\0') != std::string_view::npos) {
          return broken("data follows its end");
        }
        return {};
    }
  }
  return {};
}

Result<void> TarReader::finish() const {
  if (phase_ == Phase::ended) return {};
  return broken(base::concat("it is cut short after ", read_, " bytes"));
}

Result<void> TarReader::read_header() {
  const std::string_view header = header_;
  if (header.find_first_not_of('\0') == std::string_view::npos) {
    if (next_name_ || next_size_) return broken("it ends where an entry was announced");
    if (++zero_blocks_ == 2) phase_ = Phase::ended;
    return {};
  }
  if (zero_blocks_ > 0) return broken("data follows its end");
  if (!has_valid_checksum(header)) {
    return broken(seen_.empty() ? "no tar header, or one with a wrong checksum"
                                : "a header has a wrong checksum");
  }
  const char type = header[156];
  const auto size = number_of(header.substr(124, 12));
  if (!size) return refused(name_of(header), "whose size cannot be read");
  padding_ = (kBlock - *size % kBlock) % kBlock;
  if (is_meta(type)) {
    if (*size > kMaxMeta) return broken("the description of an entry is too long");
    meta_type_ = type;
    meta_.clear();
    left_ = *size;
    phase_ = Phase::meta;
    return left_ == 0 ? read_meta() : Result<void>();
  }
  const auto real_size = std::exchange(next_size_, std::nullopt).value_or(*size);
  padding_ = (kBlock - real_size % kBlock) % kBlock;
  auto name = std::exchange(next_name_, std::nullopt);
  return begin_entry(type, name ? *std::move(name) : name_of(header), real_size);
}

Result<void> TarReader::begin_entry(char type, std::string name, std::uint64_t size) {
  const bool is_folder = type == '5' || (is_file(type) && name.ends_with('/'));  // v7 has no type
  if (!is_folder && !is_file(type)) return refused(name, kind_of(type));
  if (is_folder && size != 0) return refused(name, "a folder with content");
  if (size > limits_.max_bytes) {
    return refused(name,
                   base::concat("of ", size, " bytes, beyond the limit of ", limits_.max_bytes));
  }
  if (is_folder && (name == "./" || name == ".")) return {};  // the folder itself
  TarEntry entry = {.kind = is_folder ? kFolder : kFile, .size = size};
  TINKER_TRY(entry.name, base::clean_relative_path(name));
  TINKER_TRY(note(entry));
  TINKER_TRY(sink_.begin(entry));
  left_ = size;
  phase_ = Phase::content;
  return left_ == 0 ? end_entry() : Result<void>();
}

/// Refuses what would replace something that is there already.
Result<void> TarReader::note(const TarEntry& entry) {
  const std::string_view name = entry.name;
  for (auto slash = name.find('/'); slash != std::string_view::npos;
       slash = name.find('/', slash + 1)) {
    const auto above = seen_.emplace(name.substr(0, slash), kFolder).first;
    if (above->second == kFile) return refused(name, "below a file");
  }
  const auto [place, is_new] = seen_.emplace(name, entry.kind);
  if (!is_new && (entry.kind == kFile || place->second == kFile)) {
    return refused(name, "which is there twice");
  }
  if (seen_.size() > limits_.max_entries) {
    return broken(base::concat("it has more than ", limits_.max_entries, " entries"));
  }
  return {};
}

Result<void> TarReader::end_entry() {
  phase_ = padding_ > 0 ? Phase::padding : Phase::header;
  return sink_.end();
}

Result<void> TarReader::read_meta() {
  phase_ = padding_ > 0 ? Phase::padding : Phase::header;
  if (meta_type_ == 'L') next_name_ = text_of(meta_);
  if (meta_type_ == 'x' || meta_type_ == 'g') return read_pax(meta_);
  return {};  // K names the target of a link, which is refused when it comes
}

/// Records of the form "27 path=some/long/name\n"; the number counts all of it.
Result<void> TarReader::read_pax(std::string_view records) {
  while (!records.empty()) {
    std::size_t size = 0;
    const auto [end, error] =
        std::from_chars(records.data(), records.data() + records.size(), size);
    const auto digits = static_cast<std::size_t>(end - records.data());
    const auto equals = records.find('=');
    if (error != std::errc() || size > records.size() || equals >= size || digits >= equals ||
        records[digits] != ' ' || records[size - 1] != '\n') {
      return broken("a pax header cannot be read");
    }
    const auto key = records.substr(digits + 1, equals - digits - 1);
    const auto value = records.substr(equals + 1, size - equals - 2);
    records.remove_prefix(size);
    if (key.starts_with("GNU.sparse."))
      return broken("it holds a sparse file, which is not supported");
    const bool is_global = meta_type_ == 'g';
    if (is_global && (key == "path" || key == "size")) {
      return broken(base::concat("it gives all entries one ", key));
    }
    if (key == "path") next_name_ = value;
    if (key == "size") {
      std::uint64_t number = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) {
        return broken(base::concat("size: expected a number, found ", base::quoted(value)));
      }
      next_size_ = number;
    }
  }
  return {};
}

}  // namespace tinker::formats
