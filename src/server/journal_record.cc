#include "server/journal_record.h"

#include <array>
#include <utility>

#include "server/little_endian.h"

namespace tinker::server {

namespace {

constexpr auto kTexts = std::array{&JournalRecord::request_id,
                                   &JournalRecord::type,
                                   &JournalRecord::payload_hash,
                                   &JournalRecord::content_type,
                                   &JournalRecord::owner,
                                   &JournalRecord::note};
constexpr std::size_t kFixed = 1 + sizeof(std::uint64_t);

Error unreadable() {
  return {.code = ErrorCode::io_error, .message = "a record of the journal makes no sense"};
}

}  // namespace

std::string JournalRecord::encode() const {
  std::string out;
  std::size_t size = kFixed + content().size();
  for (const auto text : kTexts) size += sizeof(std::uint32_t) + (this->*text).size();
  out.reserve(size);
  out += static_cast<char>(kind);
  put_little_endian(out, static_cast<std::uint64_t>(number));
  for (const auto text : kTexts) {
    put_little_endian(out, static_cast<std::uint32_t>((this->*text).size()));
    out += this->*text;
  }
  return out.append(content());
}

Result<JournalRecord> JournalRecord::decode(std::string_view bytes) {
  if (bytes.size() < kFixed) return unreadable();
  const auto kind = static_cast<Kind>(bytes[0]);
  if (kind < Kind::created || kind > Kind::samples) return unreadable();
  JournalRecord out = {.kind = kind};
  out.number = static_cast<std::int64_t>(get_little_endian<std::uint64_t>(bytes.substr(1)));
  bytes.remove_prefix(kFixed);
  for (const auto text : kTexts) {
    if (bytes.size() < sizeof(std::uint32_t)) return unreadable();
    const std::size_t size = get_little_endian<std::uint32_t>(bytes);
    bytes.remove_prefix(sizeof(std::uint32_t));
    if (bytes.size() < size) return unreadable();
    out.*text = bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
  out.body = std::make_shared<const std::string>(bytes);
  return out;
}

}  // namespace tinker::server
