#include <simdjson.h>

#include "base/relative_path.h"
#include "base/strings.h"
#include "formats/json_object.h"
#include "tokenizer/hub_core.h"

namespace tinker::tokenizer {

using formats::JsonObject;

namespace {

Result<HubListing> read_listing(std::string_view json) {
  simdjson::dom::parser parser;
  TINKER_TRY(const auto root, JsonObject::parse(json, parser));
  TINKER_TRY(const auto commit, root.string("sha"));
  HubListing out = {.commit = std::string(commit)};
  TINKER_TRY(root.for_each("siblings", [&out](JsonObject::Element element) -> Result<void> {
    TINKER_TRY(const auto file, JsonObject::from(element, "siblings"));
    TINKER_TRY(const auto name, file.string("rfilename"));
    TINKER_TRY(const auto size, file.integer("size", 0));
    out.files.emplace(name, size > 0 ? static_cast<std::uint64_t>(size) : 0);
    return {};
  }));
  return out;
}

}  // namespace

Result<HubListing> parse_hub_listing(std::string_view json) {
  auto out = read_listing(json);
  if (!out.ok()) {
    return Error{.code = ErrorCode::invalid_response, .message = out.error().message};
  }
  if (is_commit(out->commit)) return out;
  return Error{.code = ErrorCode::invalid_response,
               .message = base::concat("sha: expected 40 digits of a commit, found ",
                                       base::quoted(out->commit))};
}

}  // namespace tinker::tokenizer
