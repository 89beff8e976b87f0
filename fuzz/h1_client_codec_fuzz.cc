#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tinker/check.h"
#include "transport/h1_client_codec.h"

namespace {

using namespace tinker::http;

struct Outcome {
  bool is_finished = false;
  bool is_ok = false;
  bool is_spent = false;
  Response response = {};
};

Outcome read_answer(std::string_view bytes, std::size_t piece, bool ends_well) {
  H1ClientCodec codec{HeadLimits{}};
  const auto exchange = std::make_shared<Exchange>();
  exchange->request.max_response_bytes = std::size_t{1} << 20U;
  codec.start(exchange, {});
  while (!codec.output({}).empty()) codec.wrote(codec.output({}).size(), {});
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    codec.receive(bytes.substr(at, piece), {});
  if (ends_well) codec.end(std::nullopt);
  const auto finished = codec.take_finished();
  TINKER_CHECK(finished.size() + codec.in_flight() == 1);
  return {.is_finished = !finished.empty(),
          .is_ok = !finished.empty() && !finished[0].error,
          .is_spent = codec.is_spent(),
          .response = exchange->response};
}

}  // namespace

// Whatever a server sends, it is one answer or one error, and the same one however it is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool ends_well = (data[0] & 1U) != 0;
  const std::size_t piece = 1 + (data[0] >> 1U);
  const Outcome whole = read_answer(bytes, std::max<std::size_t>(bytes.size(), 1), ends_well);
  const Outcome pieces = read_answer(bytes, piece, ends_well);
  // What is wrong may be noticed later in small pieces, but not after the end.
  TINKER_CHECK(!ends_well || (whole.is_finished && pieces.is_finished));
  if (!whole.is_finished || !pieces.is_finished) return 0;
  TINKER_CHECK(whole.is_ok == pieces.is_ok);
  if (!whole.is_ok) return 0;
  TINKER_CHECK(whole.is_spent == pieces.is_spent);
  TINKER_CHECK(whole.response.status == pieces.response.status);
  TINKER_CHECK(whole.response.headers == pieces.response.headers);
  TINKER_CHECK(whole.response.body == pieces.response.body);
  return 0;
}
