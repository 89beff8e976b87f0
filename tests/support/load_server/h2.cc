// HTTP/2, by nghttp2.

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "base/strings.h"
#include "support/load_server/connection.h"

namespace tinker::load_server {

namespace {

constexpr std::string_view kGarbage = "\xFF\xFF\xFF not a frame of any kind, and far too long";
constexpr std::size_t kDripBytes = 8;
constexpr std::size_t kEnough = std::size_t{64} << 10U;
constexpr std::int32_t kConnectionWindow = 64 << 20;

std::string_view view(const std::uint8_t* bytes, std::size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): nghttp2's texts are unsigned.
  return {reinterpret_cast<const char*>(bytes), size};
}

/// nghttp2 copies what it is given here.
nghttp2_nv field(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    // NOLINTNEXTLINE: nghttp2 takes mutable, unsigned bytes and only reads them.
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {.name = bytes(name),
          .value = bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = NGHTTP2_NV_FLAG_NONE};
}

struct Stream {
  std::int32_t id = 0;
  Request request = {};
  Answer answer = {};
  std::size_t sent = 0;
  std::size_t allowed = 0;  // how much of the body may go out by now
  bool is_ended_early = false;
  bool is_dripping = false;
};

struct FreeSession {
  void operator()(nghttp2_session* session) const noexcept { nghttp2_session_del(session); }
};

class H2 final : public Protocol {
 public:
  explicit H2(Connection& connection) : connection_(connection) {
    static const auto* const callbacks = make_callbacks();
    nghttp2_option* options = nullptr;
    nghttp2_option_new(&options);
    nghttp2_option_set_max_send_header_block_length(options, std::size_t{1} << 20U);
    nghttp2_session* session = nullptr;
    nghttp2_session_server_new2(&session, callbacks, this, options);
    nghttp2_option_del(options);
    session_.reset(session);
    const std::array settings = {
        nghttp2_settings_entry{.settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                               .value = connection.host().api().options().max_streams}};
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
    nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  }

  void receive(std::string_view bytes) override {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): nghttp2's bytes are unsigned.
    const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (nghttp2_session_mem_recv(session_.get(), data, bytes.size()) < 0) connection_.finish();
    act_on_faults();
  }

  void produce() override {
    std::string& out = connection_.output();
    while (out.size() < kEnough) {
      const std::uint8_t* data = nullptr;
      const auto size = nghttp2_session_mem_send(session_.get(), &data);
      if (size <= 0) break;
      out += view(data, static_cast<std::size_t>(size));
    }
    const bool is_over = nghttp2_session_want_read(session_.get()) == 0 &&
                         nghttp2_session_want_write(session_.get()) == 0;
    if (is_over) connection_.finish_politely();
  }

  void on_timer(std::uint32_t tag) override {
    const auto found = streams_.find(static_cast<std::int32_t>(tag));
    if (found == streams_.end()) return;  // the client gave it up
    Stream& stream = *found->second;
    if (stream.is_dripping) {
      drip(stream);
    } else if (stream.answer.is_pending) {
      ask(stream);
    } else {
      respond(stream);
    }
    act_on_faults();
  }

 private:
  static H2& self(void* user) { return *static_cast<H2*>(user); }
  Stream* find(std::int32_t id) {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session_.get(), id));
  }

  static const nghttp2_session_callbacks* make_callbacks() {
    nghttp2_session_callbacks* out = nullptr;
    nghttp2_session_callbacks_new(&out);
    nghttp2_session_callbacks_set_on_begin_headers_callback(
        out, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          self(user).begin(frame->hd.stream_id);
          return 0;
        });
    nghttp2_session_callbacks_set_on_header_callback(out, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        out,
        [](nghttp2_session*,
           std::uint8_t,
           std::int32_t id,
           const std::uint8_t* data,
           std::size_t size,
           void* user) {
          if (auto* const stream = self(user).find(id)) stream->request.body += view(data, size);
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        out, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          const bool is_request =
              frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
          if (!is_request || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
          if (auto* const stream = self(user).find(frame->hd.stream_id)) self(user).ask(*stream);
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        out, [](nghttp2_session*, std::int32_t id, std::uint32_t, void* user) {
          self(user).streams_.erase(id);
          return 0;
        });
    return out;
  }

  // NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's.
  static int on_header(nghttp2_session* /*session*/,
                       const nghttp2_frame* frame,
                       const std::uint8_t* name_bytes,
                       std::size_t name_size,
                       const std::uint8_t* value_bytes,
                       std::size_t value_size,
                       std::uint8_t /*flags*/,
                       void* user) {
    auto* const stream = self(user).find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const auto name = view(name_bytes, name_size);
    const auto value = view(value_bytes, value_size);
    Request& request = stream->request;
    if (name == ":path") {
      const auto question = std::min(value.find('?'), value.size());
      request.path = value.substr(0, question);
      request.query = value.substr(std::min(question + 1, value.size()));
    } else if (name == "x-fault") {
      request.fault = value;
    } else if (name == "accept") {
      request.accepts_proto = value.find("x-protobuf") != std::string_view::npos;
    } else if (name == "x-stainless-retry-count") {
      std::from_chars(value.data(), value.data() + value.size(), request.retry_count);
    }
    return 0;
  }

  void begin(std::int32_t id) {
    auto stream = std::make_unique<Stream>();
    stream->id = id;
    nghttp2_session_set_stream_user_data(session_.get(), id, stream.get());
    streams_.insert_or_assign(id, std::move(stream));
  }

  void ask(Stream& stream) {
    stream.answer = connection_.host().api().answer(stream.request, connection_.host().now());
    const auto tag = static_cast<std::uint32_t>(stream.id);
    if (stream.answer.plan.fault == Fault::hold) return connection_.hold(tag);
    if (stream.answer.plan.delay > std::chrono::milliseconds(0)) {
      return connection_.wake_after(stream.answer.plan.delay, tag);
    }
    respond(stream);
  }

  void respond(Stream& stream) {
    const auto size = stream.answer.body.size();
    stream.allowed = size;
    switch (stream.answer.plan.fault) {
      case Fault::hang: return;
      case Fault::drop:
      case Fault::reset:
      case Fault::garbage: fatal_.push_back(stream.answer.plan.fault); return;
      case Fault::drop_after_headers:
        stream.allowed = 0;
        fatal_.push_back(Fault::drop_after_headers);
        break;
      case Fault::truncate:
        stream.allowed = size / 2;
        stream.is_ended_early = true;
        break;
      case Fault::stall: stream.allowed = size / 2; break;
      case Fault::drip:
        stream.allowed = 0;
        drip(stream);
        break;
      case Fault::bad_chunk: return end_stream(stream.id, NGHTTP2_PROTOCOL_ERROR);
      case Fault::rst_stream: return end_stream(stream.id, NGHTTP2_INTERNAL_ERROR);
      case Fault::refused_stream: return end_stream(stream.id, NGHTTP2_REFUSED_STREAM);
      case Fault::goaway: return go_away(stream.id - 2);
      case Fault::goaway_served: go_away(stream.id); break;
      case Fault::close: fatal_.push_back(Fault::close); break;
      default: break;
    }
    submit(stream);
  }

  void end_stream(std::int32_t id, std::uint32_t code) {
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, code);
  }

  void go_away(std::int32_t last) {
    const auto id = std::max(last, 0);
    nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR, nullptr, 0);
  }

  void drip(Stream& stream) {
    const auto size = stream.answer.body.size();
    stream.allowed = std::min(stream.allowed + kDripBytes, size);
    const bool is_submitted = std::exchange(stream.is_dripping, true);
    if (stream.allowed < size) {
      connection_.wake_after(stream.answer.plan.drip, static_cast<std::uint32_t>(stream.id));
    }
    if (is_submitted) nghttp2_session_resume_data(session_.get(), stream.id);
  }

  void submit(Stream& stream) {
    const Answer& answer = stream.answer;
    const auto status = std::to_string(answer.plan.status);
    const auto length = std::to_string(answer.body.size());
    std::vector<nghttp2_nv> head = {field(":status", status),
                                    field("content-type", answer.content_type),
                                    field("content-length", length)};
    const Plan& plan = answer.plan;
    if (!plan.retry_after.empty()) head.push_back(field("retry-after", plan.retry_after));
    if (!plan.retry_after_ms.empty()) head.push_back(field("retry-after-ms", plan.retry_after_ms));
    if (plan.fault == Fault::bad_gzip) head.push_back(field("content-encoding", "gzip"));
    // Fits the compression table, so that all but the first take a byte each.
    static const std::string pad(3000, '~');
    if (plan.fault == Fault::big_headers) head.insert(head.end(), 134, field("x-pad", pad));

    nghttp2_data_provider body = {.source = {.ptr = &stream}, .read_callback = read_body};
    const bool has_body = !answer.body.empty();
    nghttp2_submit_response(
        session_.get(), stream.id, head.data(), head.size(), has_body ? &body : nullptr);
  }

  // NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's.
  static ssize_t read_body(nghttp2_session* /*session*/,
                           std::int32_t /*id*/,
                           std::uint8_t* into,
                           std::size_t room,
                           std::uint32_t* flags,
                           nghttp2_data_source* source,
                           void* /*user*/) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const auto piece = std::string_view(stream.answer.body)
                           .substr(stream.sent, std::min(room, stream.allowed - stream.sent));
    const bool is_at_end = stream.sent + piece.size() == stream.answer.body.size();
    if (piece.empty() && !is_at_end && !stream.is_ended_early) return NGHTTP2_ERR_DEFERRED;
    std::ranges::copy(piece, into);
    stream.sent += piece.size();
    const bool is_cut = stream.is_ended_early && stream.sent == stream.allowed;
    if (is_at_end || is_cut) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(piece.size());
  }

  /// What takes the whole connection down waits until nghttp2 is done with its input.
  void act_on_faults() {
    if (fatal_.empty()) return;
    const Fault fault = fatal_.front();
    if (fault == Fault::reset) return connection_.reset();
    if (fault == Fault::drop_after_headers || fault == Fault::close) produce();
    if (fault == Fault::garbage) connection_.output() += kGarbage;
    if (fault == Fault::close) return connection_.finish_politely();
    connection_.finish();
  }

  Connection& connection_;
  std::unique_ptr<nghttp2_session, FreeSession> session_;
  std::unordered_map<std::int32_t, std::unique_ptr<Stream>> streams_;
  std::vector<Fault> fatal_;
};

}  // namespace

std::unique_ptr<Protocol> make_h2(Connection& connection) {
  return std::make_unique<H2>(connection);
}

}  // namespace tinker::load_server
