#include "wire/request_number.h"

#include <utility>

#include "wire/json_reader.h"
#include "wire/proto_field.h"
#include "wire/utf8.h"

namespace tinker::wire {

std::optional<RequestNumber> json_request_number(std::string_view body) {
  const auto document = JsonDocument::parse(body);
  if (!document.ok() || document->root().kind() != JsonView::Kind::object) return std::nullopt;
  const auto model = document->root().member("model_id");
  const auto number = document->root().member("seq_id");
  if (!model || model->kind() != JsonView::Kind::string || !number) return std::nullopt;
  const auto seq_id = number->as_integer();
  if (!seq_id) return std::nullopt;
  return RequestNumber{.model_id = std::string(model->string()), .seq_id = *seq_id};
}

std::optional<RequestNumber> proto_request_number(std::string_view body) {
  std::optional<std::string> model_id;
  std::optional<std::int64_t> seq_id;
  try {
    for (pbf_reader reader(body.data(), body.size()); reader.next();) {
      if (reader.tag() == 1 && reader.wire_type() == pbf_wire_type::length_delimited) {
        model_id = reader.get_string();
      } else if (reader.tag() == 2 && reader.wire_type() == pbf_wire_type::varint) {
        seq_id = static_cast<std::int32_t>(reader.get_uint64());
      } else {
        reader.skip();
      }
    }
  } catch (const protozero::exception&) {  // NOLINT(bugprone-empty-catch): what came before counts
  }
  if (!model_id || !seq_id || !is_utf8(*model_id)) return std::nullopt;
  return RequestNumber{.model_id = *std::move(model_id), .seq_id = *seq_id};
}

}  // namespace tinker::wire
