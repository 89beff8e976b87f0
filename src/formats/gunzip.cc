#include "formats/gunzip.h"

#include <algorithm>
#include <array>
#include <utility>

#include <zlib.h>

#include "base/strings.h"

namespace tinker::formats {
namespace {

constexpr std::size_t kOutputBytes = std::size_t{64} << 10U;
constexpr std::size_t kMaxInput = std::size_t{1} << 30U;  // zlib counts in 32 bits

Error broken(std::string_view why) {
  return {.code = ErrorCode::invalid_response,
          .message = base::concat("cannot decompress gzip data: ", why)};
}

}  // namespace

struct Gunzip::Stream {
  Stream() { is_ready = ::inflateInit2(&z, MAX_WBITS + 16) == Z_OK; }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { ::inflateEnd(&z); }

  z_stream z = {};
  std::array<char, kOutputBytes> output = {};
  bool is_ready = false;
  bool is_between_members = false;
};

bool is_gzip(std::string_view begin) noexcept {
  return begin.starts_with("\x1f\x8b");
}

Gunzip::Gunzip(UniqueFunction<Result<void>(std::string_view)> out)
    : stream_(std::make_unique<Stream>()), out_(std::move(out)) {}
Gunzip::~Gunzip() = default;

Result<void> Gunzip::put(std::string_view bytes) {
  if (!stream_->is_ready) return broken("zlib cannot be set up");
  z_stream& z = stream_->z;
  auto& output = stream_->output;
  while (!bytes.empty()) {
    if (std::exchange(stream_->is_between_members, false) && ::inflateReset(&z) != Z_OK) {
      return broken("zlib cannot start again");
    }
    const auto input = static_cast<uInt>(std::min(bytes.size(), kMaxInput));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib reads only, its type is from C.
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    z.avail_in = input;
    int status = Z_OK;
    do {  // an output that is full may hide more
      z.next_out = reinterpret_cast<Bytef*>(output.data());
      z.avail_out = static_cast<uInt>(output.size());
      status = ::inflate(&z, Z_NO_FLUSH);
      const std::size_t made = output.size() - z.avail_out;
      if (made == 0) break;
      TINKER_TRY(out_({output.data(), made}));
    } while (status == Z_OK && z.avail_out == 0);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      return broken(z.msg != nullptr ? z.msg : "damaged data");
    }
    stream_->is_between_members = status == Z_STREAM_END;
    bytes.remove_prefix(input - z.avail_in);
  }
  return {};
}

Result<void> Gunzip::finish() const {
  if (stream_->is_between_members) return {};
  return broken("it is cut short");
}

}  // namespace tinker::formats
