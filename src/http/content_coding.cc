#include "http/content_coding.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include <zlib.h>
#include <zstd.h>

#include "base/strings.h"
#include "http/ascii.h"

namespace tinker::http {
namespace {

constexpr std::size_t kMaxCodings = 4;  // more is an attempt to make us work
constexpr std::size_t kFirstOutputBytes = 1024;
constexpr std::size_t kGrowBytes = std::size_t{256} << 10U;
constexpr std::size_t kMaxStepBytes = std::size_t{1} << 30U;  // zlib counts in 32 bits

Error broken(std::string_view coding, std::string_view why) {
  return {.code = ErrorCode::invalid_response,
          .message = base::concat("cannot decode a ", coding, " body: ", why)};
}

Error too_long(std::size_t limit) {
  return {
      .code = ErrorCode::invalid_response,
      .message = base::concat("the decoded body is longer than the limit of ", limit, " bytes")};
}

/// What comes out. Its memory grows with it and never beyond the limit; one byte beyond goes to a
/// place of its own, so that `over_limit` can tell.
class Output {
 public:
  Output(std::size_t input_bytes, std::size_t limit) : limit_(limit) {
    const std::size_t wanted = std::max(2 * input_bytes, kFirstOutputBytes);
    text_.reserve(wanted > limit_ / 2 ? limit_ : wanted);
  }

  [[nodiscard]] char* begin() noexcept { return is_full() ? &beyond_ : text_.data() + used_; }
  [[nodiscard]] std::size_t free_bytes() const noexcept {
    return is_full() ? 1 : text_.size() - used_;
  }
  void advance(std::size_t bytes) noexcept { used_ += bytes; }
  [[nodiscard]] bool over_limit() const noexcept { return used_ > limit_; }
  void grow_if_full() {
    if (used_ < text_.size() || is_full()) return;
    if (text_.size() == text_.capacity()) reserve_more();
    // Step by step: pages that are not used yet are not touched.
    text_.resize(std::min({text_.capacity(), text_.size() + kGrowBytes, limit_}));
  }
  [[nodiscard]] std::string take() && {
    text_.resize(used_);
    return std::move(text_);
  }

 private:
  [[nodiscard]] bool is_full() const noexcept { return used_ >= limit_; }
  /// Doubles, and the last step goes from half the limit or less. Into a new string, because
  /// `std::string` itself would double beyond the limit.
  void reserve_more() {
    std::string larger;
    const std::size_t doubled = std::max(2 * text_.size(), kGrowBytes);
    larger.reserve(doubled > limit_ / 2 ? limit_ : doubled);
    larger += text_;
    text_ = std::move(larger);
  }

  std::size_t limit_;
  std::size_t used_ = 0;
  char beyond_ = '\0';
  std::string text_ = {};
};

/// A zlib decoder; `window_bits` tells the frame, as inflateInit2 has it.
class Inflater {
 public:
  Inflater(std::string_view coding, int window_bits) : coding_(coding) {
    ready_ = ::inflateInit2(&stream_, window_bits) == Z_OK;
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// With `multi_member`, frames that follow each other are one text (RFC 1952, section 2.2).
  Result<std::string> run(std::string_view body, std::size_t limit, bool multi_member) {
    if (!ready_) return broken(coding_, "zlib cannot be set up");
    Output out(body.size(), limit);
    while (true) {
      const int status = step(body, out);
      if (out.over_limit()) return too_long(limit);
      if (status == Z_STREAM_END) {
        if (body.empty()) return std::move(out).take();
        if (!multi_member) return broken(coding_, "data follows its end");
        if (::inflateReset(&stream_) != Z_OK) return broken(coding_, "zlib cannot start again");
      } else if (status == Z_BUF_ERROR && body.empty()) {
        return broken(coding_, "it is cut short");
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return broken(coding_, stream_.msg != nullptr ? stream_.msg : "damaged data");
      }
    }
  }

 private:
  /// Decodes as much as fits and takes it from `body`.
  int step(std::string_view& body, Output& out) {
    out.grow_if_full();
    const auto in_bytes = static_cast<uInt>(std::min(body.size(), kMaxStepBytes));
    const auto out_bytes = static_cast<uInt>(std::min(out.free_bytes(), kMaxStepBytes));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib reads only, its type is from C.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
    stream_.avail_in = in_bytes;
    stream_.next_out = reinterpret_cast<Bytef*>(out.begin());
    stream_.avail_out = out_bytes;
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    body.remove_prefix(in_bytes - stream_.avail_in);
    out.advance(out_bytes - stream_.avail_out);
    return status;
  }

  std::string_view coding_;
  z_stream stream_ = {};
  bool ready_ = false;
};

Result<std::string> decode_gzip(std::string_view body, std::size_t limit) {
  return Inflater("gzip", MAX_WBITS + 16).run(body, limit, true);
}

/// "deflate" means a zlib frame (RFC 9110, section 8.4.1.2), but many servers send none.
Result<std::string> decode_deflate(std::string_view body, std::size_t limit) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(body[at]); };
  const bool framed =
      body.size() >= 2 && (byte(0) & 0x0FU) == Z_DEFLATED && (byte(0) * 256U + byte(1)) % 31 == 0;
  auto out = Inflater("deflate", framed ? MAX_WBITS : -MAX_WBITS).run(body, limit, false);
  if (out || !framed) return out;
  // Raw data may start like a frame.
  auto raw = Inflater("deflate", -MAX_WBITS).run(body, limit, false);
  return raw ? std::move(raw) : std::move(out);
}

Result<std::string> decode_zstd(std::string_view body, std::size_t limit) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     ZSTD_freeDCtx);
  if (!context) return broken("zstd", "zstd cannot be set up");
  // A frame may ask for more memory than its text can need. 8 MiB is what HTTP allows (RFC 9659),
  // 128 MiB what zstd itself does.
  const int window_log = std::clamp(static_cast<int>(std::bit_width(limit)), 23, 27);
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, window_log);

  Output out(body.size(), limit);
  ZSTD_inBuffer in = {.src = body.data(), .size = body.size(), .pos = 0};
  while (true) {
    out.grow_if_full();
    ZSTD_outBuffer piece = {.dst = out.begin(), .size = out.free_bytes(), .pos = 0};
    const std::size_t status = ZSTD_decompressStream(context.get(), &piece, &in);
    out.advance(piece.pos);
    if (ZSTD_isError(status) != 0)
      return broken("zstd", ascii::to_lower(ZSTD_getErrorName(status)));
    if (out.over_limit()) return too_long(limit);
    if (in.pos < in.size) continue;
    if (status == 0) return std::move(out).take();
    if (piece.pos < piece.size) return broken("zstd", "it is cut short");
  }
}

Result<std::string> decode_one(std::string_view coding, std::string body, std::size_t limit) {
  if (coding == "identity" || body.empty()) return body;
  if (coding == "gzip" || coding == "x-gzip") return decode_gzip(body, limit);
  if (coding == "deflate") return decode_deflate(body, limit);
  return decode_zstd(body, limit);
}

/// The names in the list, lower case, the one applied last first.
Result<std::vector<std::string>> read_codings(std::string_view list) {
  std::vector<std::string> codings;
  while (!list.empty()) {
    const auto item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    auto name = ascii::to_lower(ascii::trim(item));
    if (name.empty()) continue;
    if (name != "gzip" && name != "x-gzip" && name != "deflate" && name != "zstd" &&
        name != "identity") {
      return Error{
          .code = ErrorCode::invalid_response,
          .message = base::concat("unknown content coding '", ascii::printable(name), "'")};
    }
    codings.push_back(std::move(name));
  }
  if (codings.size() > kMaxCodings) {
    return Error{.code = ErrorCode::invalid_response,
                 .message = base::concat("more than ", kMaxCodings, " content codings")};
  }
  std::ranges::reverse(codings);
  return codings;
}

Result<std::string> decode_all(std::string_view encoding, std::string body, std::size_t limit) {
  TINKER_TRY(const auto codings, read_codings(encoding));
  for (const auto& coding : codings) {
    TINKER_TRY(body, decode_one(coding, std::move(body), limit));
  }
  if (body.size() > limit) return too_long(limit);
  return body;
}

}  // namespace

Result<std::string> decode_content(std::string_view encoding,
                                   std::string body,
                                   std::size_t limit,
                                   ErrorCode code) {
  auto decoded = decode_all(encoding, std::move(body), limit);
  if (decoded.ok()) return decoded;
  Error error = std::move(decoded).error();
  error.code = code;
  return error;
}

Result<std::string> gzip_compress(std::string_view data, int level) {
  z_stream stream = {};
  constexpr int kMemoryLevel = 8;  // zlib's default
  if (level < Z_BEST_SPEED || level > Z_BEST_COMPRESSION ||
      ::deflateInit2(
          &stream, level, Z_DEFLATED, MAX_WBITS + 16, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("gzip has no level ", level, ", expected 1 to 9")};
  }
  const std::unique_ptr<z_stream, decltype(&::deflateEnd)> owner(&stream, ::deflateEnd);
  std::string out(::deflateBound(&stream, data.size()), '\0');
  int status = Z_OK;
  for (std::size_t used = 0; status == Z_OK; used = stream.total_out) {
    const std::size_t in_bytes = std::min<std::size_t>(data.size(), kMaxStepBytes);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib reads only, its type is from C.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<uInt>(in_bytes);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    stream.avail_out = static_cast<uInt>(std::min(out.size() - used, kMaxStepBytes));
    status = ::deflate(&stream, in_bytes == data.size() ? Z_FINISH : Z_NO_FLUSH);
    data.remove_prefix(in_bytes - stream.avail_in);
  }
  if (status != Z_STREAM_END) {
    return Error{.code = ErrorCode::internal, .message = "zlib cannot compress"};
  }
  out.resize(stream.total_out);
  return out;
}

Result<std::string> zstd_compress(std::string_view data, int level) {
  if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("zstd has no level ",
                                         level,
                                         ", expected ",
                                         ZSTD_minCLevel(),
                                         " to ",
                                         ZSTD_maxCLevel())};
  }
  std::string out(ZSTD_compressBound(data.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), data.data(), data.size(), level);
  if (ZSTD_isError(size) != 0) {
    return Error{.code = ErrorCode::internal,
                 .message = base::concat("zstd: ", ZSTD_getErrorName(size))};
  }
  out.resize(size);
  return out;
}

}  // namespace tinker::http
