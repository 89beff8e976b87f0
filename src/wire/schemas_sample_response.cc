// SampleResponse as JSON, the form of clients that do not ask for protobuf (PROTOCOL 11). Wire
// order is declaration order.

#include <algorithm>
#include <cmath>
#include <limits>

#include "tinker/types/sample.h"
#include "wire/special_codecs.h"

namespace tinker::wire {

using Kind = JsonView::Kind;

// ---- Logprobs

namespace {

bool read_logprob(JsonView value, float& out, Decoder& decoder) {
  double wide = std::numeric_limits<double>::quiet_NaN();
  if (value.kind() != Kind::null && !JsonCodec<double>::read(value, wide, decoder)) return false;
  if (std::isfinite(wide) && std::abs(wide) > std::numeric_limits<float>::max()) {
    return decoder.fail("expected a number of 32-bit float range");
  }
  out = static_cast<float>(wide);
  return true;
}

void write_logprob(float logprob, JsonWriter& writer) {
  if (std::isnan(logprob)) {
    writer.null();
  } else {
    writer.number(logprob);
  }
}

}  // namespace

bool LogprobsCodec::read(JsonView value, std::vector<float>& out, Decoder& decoder) {
  out.clear();
  if (value.kind() == Kind::null) return true;
  if (value.kind() != Kind::array) return decoder.fail_expected(kExpected, value);
  return value.for_each_element([&](JsonView element) {
    const Path::Step step(decoder.path(), out.size());
    return read_logprob(element, out.emplace_back(), decoder);
  });
}

void LogprobsCodec::write(const std::vector<float>& in, JsonWriter& writer) {
  writer.begin_array();
  for (const float logprob : in) write_logprob(logprob, writer);
  writer.end_array();
}

// ---- The most likely tokens

namespace {

using Cells = std::vector<TopkLogprobs::Cell>;

bool read_cell(JsonView value, TopkLogprobs::Cell& out, Decoder& decoder) {
  std::size_t count = 0;
  const auto read_member = [&](JsonView element) {
    const Path::Step step(decoder.path(), count++);
    if (count == 1) return JsonCodec<std::int32_t>::read(element, out.first, decoder);
    if (count == 2) return read_logprob(element, out.second, decoder);
    return false;
  };
  const bool is_read = value.kind() == Kind::array && value.for_each_element(read_member);
  return (is_read && count == 2) || decoder.fail("expected a pair of a token and a logprob");
}

bool read_cells(JsonView value, Cells& out, Decoder& decoder) {
  if (value.kind() == Kind::null) return true;
  if (value.kind() != Kind::array) return decoder.fail_expected("an array of pairs", value);
  return value.for_each_element([&](JsonView cell) {
    const Path::Step step(decoder.path(), out.size());
    return read_cell(cell, out.emplace_back(), decoder);
  });
}

/// Both matrices, as wide as the longest row; what is left of the others is masked.
TopkLogprobs to_matrices(const std::vector<Cells>& rows) {
  std::size_t k = 0;
  for (const auto& row : rows) k = std::max(k, row.size());
  TopkLogprobs out = {.token_ids = std::vector<std::int32_t>(rows.size() * k, 0),
                      .logprobs = std::vector<float>(rows.size() * k, TopkLogprobs::kMaskLogprob),
                      .k = static_cast<std::uint32_t>(k),
                      .length = static_cast<std::uint32_t>(rows.size())};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < rows[row].size(); ++i) {
      out.token_ids[row * k + i] = rows[row][i].first;
      out.logprobs[row * k + i] = rows[row][i].second;
    }
  }
  return out;
}

}  // namespace

bool JsonCodec<TopkLogprobs>::read(JsonView value, TopkLogprobs& out, Decoder& decoder) {
  if (value.kind() != Kind::array) return decoder.fail_expected(kExpected, value);
  std::vector<Cells> rows;
  const bool is_read = value.for_each_element([&](JsonView row) {
    const Path::Step step(decoder.path(), rows.size());
    return read_cells(row, rows.emplace_back(), decoder);
  });
  if (is_read) out = to_matrices(rows);
  return is_read;
}

void JsonCodec<TopkLogprobs>::write(const TopkLogprobs& in, JsonWriter& writer) {
  const std::size_t cells = std::size_t{in.k} * in.length;
  if (in.token_ids.size() != cells || in.logprobs.size() != cells) {
    return writer.fail(base::concat("expected ", cells, " tokens and logprobs"));
  }
  writer.begin_array();
  for (std::size_t position = 0; position < in.length; ++position) {
    const auto row = in.at(position);
    if (!row) {
      writer.null();
      continue;
    }
    writer.begin_array();
    for (const auto& [token, logprob] : *row) {
      writer.begin_array();
      writer.integer(std::int64_t{token});
      write_logprob(logprob, writer);
      writer.end_array();
    }
    writer.end_array();
  }
  writer.end_array();
}

// ---- The answer

namespace {

/// Logprobs that are left out when there are none.
template <auto kMember>
constexpr Field logprobs(std::string_view name) {
  using Object = detail::MemberOf<decltype(kMember)>::Object;
  Field field = defaulted<kMember, LogprobsCodec>(name);
  field.is_omitted = [](const void* object) {
    return (static_cast<const Object*>(object)->*kMember).empty();
  };
  return field;
}

}  // namespace

template <>
const Schema& schema_of<SampledSequence>() {
  using T = SampledSequence;
  static constexpr std::array kFields = {
      required<&T::stop_reason>("stop_reason"),
      required<&T::tokens>("tokens"),
      logprobs<&T::logprobs>("logprobs"),
      nullable<&T::topk_logprobs>("topk_sampled_logprobs"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<PromptAltTokens>() {
  using T = PromptAltTokens;
  static constexpr std::array kFields = {
      required<&T::tokens>("tokens"),
      required<&T::logprobs>("logprobs"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SampleResponse>() {
  using T = SampleResponse;
  static constexpr std::array kFields = {
      required<&T::sequences>("sequences"),
      tag<"sample">(),
      logprobs<&T::prompt_logprobs>("prompt_logprobs"),
      nullable<&T::topk_prompt_logprobs>("topk_prompt_logprobs"),
      defaulted<&T::prompt_cache_hit_tokens>("prompt_cache_hit_tokens"),
      nullable<&T::target_prompt_logprobs>("target_prompt_logprobs"),
      nullable<&T::prompt_alt_tokens>("prompt_alt_tokens"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

}  // namespace tinker::wire
