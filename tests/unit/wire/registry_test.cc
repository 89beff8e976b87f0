// All wire types by name (WIRE_TOOL), and what every one of them must be able to do.

#include "wire/registry.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "unit/wire/documents.h"

namespace tinker::wire::registry_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;
using tinker::testing::hex;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;
using Kind = WireType::Kind;

std::ptrdiff_t count(Kind kind) {
  return std::ranges::count(wire_types(), kind, &WireType::kind);
}

std::vector<std::string> names_where(bool (*predicate)(const WireType&)) {
  std::vector<std::string> names;
  for (const WireType& type : wire_types()) {
    if (predicate(type)) names.emplace_back(type.name);
  }
  return names;
}

Result<std::string> echo(const WireType& type, std::string_view text) {
  return type.transcode(std::string(text), Encoding::json, Encoding::json, {});
}

// ---- The list

TEST(Registry, HasTheTypesOfTheWireTool) {  // WIRE_TOOL: 23 + 42 + 55
  EXPECT_EQ(count(Kind::request), 23);
  EXPECT_EQ(count(Kind::response), 42);
  EXPECT_EQ(count(Kind::value), 55);
}

TEST(Registry, NamesEachTypeOnce) {
  std::set<std::string_view> names;
  for (const WireType& type : wire_types()) {
    EXPECT_TRUE(names.insert(type.name).second) << type.name;
  }
}

TEST(Registry, KnowsWhichTypesAreBinary) {  // WIRE_TOOL: marked (proto) and (both)
  EXPECT_THAT(
      names_where([](const WireType& type) { return !type.has_json; }),
      ElementsAre(
          "forward_backward_request", "forward_backward_output", "sample_response", "datum"));
  EXPECT_THAT(names_where([](const WireType& type) { return type.has_json && type.has_proto; }),
              ElementsAre("tensor_data"));
}

TEST(Registry, FindsTypesByName) {
  const WireType* type = find_wire_type("sample_request");
  ASSERT_NE(type, nullptr);
  EXPECT_EQ(type->name, "sample_request");
  EXPECT_EQ(type->kind, Kind::request);
  EXPECT_EQ(find_wire_type("sample_requests"), nullptr);
  EXPECT_EQ(find_wire_type(""), nullptr);
}

TEST(Registry, RefusesAnEncodingTheTypeDoesNotHave) {
  const WireType* json_only = find_wire_type("cursor");
  EXPECT_THAT(json_only->transcode("", Encoding::proto, Encoding::json, {}),
              IsError(ErrorCode::invalid_argument, HasSubstr("no such encoding")));
  const WireType* proto_only = find_wire_type("sample_response");
  EXPECT_THAT(proto_only->transcode("", Encoding::proto, Encoding::json, {}),
              IsError(ErrorCode::invalid_argument, HasSubstr("no such encoding")));
}

TEST(Registry, TranscodesATensorBothWays) {  // WIRE_TOOL: tensor_data (both)
  const WireType* tensor = find_wire_type("tensor_data");
  constexpr std::string_view kJson = R"({"data":[11,12],"dtype":"int64","shape":[2]})";
  const std::string proto = hex("0a100b000000000000000c000000000000001802220102");

  EXPECT_THAT(tensor->transcode(std::string(kJson), Encoding::json, Encoding::proto, {}),
              IsOkAndHolds(proto));
  EXPECT_THAT(tensor->transcode(proto, Encoding::proto, Encoding::json, {}), IsOkAndHolds(kJson));
}

TEST(Registry, PassesThePolicyOn) {
  std::vector<std::string> unknown;
  const auto written = find_wire_type("get_info_request")
                           ->transcode(R"({"model_id":"m","zz":1})",
                                       Encoding::json,
                                       Encoding::json,
                                       {.policy = Policy::lenient, .unknown_members = &unknown});
  EXPECT_THAT(written, IsOkAndHolds(R"({"model_id":"m","type":"get_info"})"));
  EXPECT_THAT(unknown, ElementsAre("zz"));
}

// ---- Every type

TEST(EveryWireType, HasDocuments) {
  std::vector<std::string> documented;
  for (const Documents& documents : kDocuments) documented.emplace_back(documents.type);
  EXPECT_THAT(
      documented,
      UnorderedElementsAreArray(names_where([](const WireType& type) { return type.has_json; })));
}

class EveryJsonType : public ::testing::TestWithParam<Documents> {
 protected:
  [[nodiscard]] static const WireType& type() { return *find_wire_type(GetParam().type); }
};

TEST_P(EveryJsonType, IsWrittenWithEveryMemberItWasReadWith) {
  EXPECT_THAT(echo(type(), GetParam().full), IsOkAndHolds(GetParam().full));
}

TEST_P(EveryJsonType, SettlesAfterOneRoundTrip) {
  const auto once = echo(type(), GetParam().minimal);
  ASSERT_THAT(once, IsOk());
  EXPECT_THAT(echo(type(), *once), IsOkAndHolds(*once));
}

TEST_P(EveryJsonType, RefusesWhatIsNoObject) {
  for (const char* text : {"[]", "null", "true", "0", R"("x")", "", "{"}) {
    EXPECT_FALSE(echo(type(), text).ok()) << text;
  }
}

/// The values that are parts of requests and closed in the official models.
bool refuses_unknown_members(const WireType& type) {
  static const std::set<std::string_view> closed = {
      "accessible_search_owner",
      "active_session_status_query",
      "adam_optimizer_config",
      "adam_params",
      "cancelled_session_status_query",
      "client_finished_session_status_query",
      "custom_loss_graph",
      "custom_loss_input",
      "custom_loss_node",
      "dimuon_optimizer_config",
      "dimuon_params",
      "dmel_chunk",
      "encoded_text_chunk",
      "failed_session_status_query",
      "image_asset_pointer_chunk",
      "image_chunk",
      "lora_config",
      "model_input",
      "own_search_owner",
      "sampling_session_futures_target",
      "tensor_data",
      "user_search_owner",
  };
  return type.kind == Kind::request || closed.contains(type.name);
}

// WIRE_TOOL: requests refuse unknown members, except in sampling parameters, telemetry events and
// the search cursor; answers ignore them. A value is one or the other.
TEST_P(EveryJsonType, RefusesOrIgnoresUnknownMembers) {
  const std::string_view full = GetParam().full;
  const std::string extended = R"({"zz_unknown":{"a":[1]},)" + std::string(full.substr(1));

  const auto written = echo(type(), extended);

  if (refuses_unknown_members(type())) {
    EXPECT_THAT(written, IsError(ErrorCode::invalid_argument, HasSubstr("zz_unknown: unknown")));
  } else {
    EXPECT_THAT(written, IsOkAndHolds(full));
  }
}

/// The document with the value of its own `type` or `state` replaced; nothing when it has none.
std::optional<std::string> with_wrong_tag(std::string_view document) {
  int depth = 0;
  for (std::size_t i = 0; i < document.size(); ++i) {
    depth += document[i] == '{' || document[i] == '[' ? 1 : 0;
    depth -= document[i] == '}' || document[i] == ']' ? 1 : 0;
    for (const std::string_view tag : {R"("type":")", R"("state":")"}) {
      if (depth != 1 || !document.substr(i).starts_with(tag)) continue;
      return std::string(document).insert(i + tag.size(), "zz");
    }
  }
  return std::nullopt;
}

TEST(EveryTaggedType, RefusesAnotherTag) {  // PROTOCOL 7.1
  int tagged = 0;
  for (const Documents& documents : kDocuments) {
    const auto wrong = with_wrong_tag(documents.full);
    if (!wrong) continue;
    ++tagged;
    const auto written = echo(*find_wire_type(documents.type), *wrong);
    EXPECT_FALSE(written.ok()) << *wrong;
  }
  EXPECT_EQ(tagged, 61);
}

TEST(EveryWireType, RefusesEveryCutDocument) {
  for (const Documents& documents : kDocuments) {
    const WireType& type = *find_wire_type(documents.type);
    for (std::size_t size = 0; size < documents.full.size(); ++size) {
      EXPECT_FALSE(echo(type, documents.full.substr(0, size)).ok()) << documents.full;
    }
  }
}

// ---- Binary types

TEST(EveryProtoType, SettlesAfterOneRoundTrip) {
  const std::vector<std::pair<std::string_view, std::string_view>> bodies = {
      {"forward_backward_request", "0a016d 1001 1a0a 0a08 0a06 0a04 00000000 2203 70706f"},
      {"forward_backward_request", "2a0c0a016111000000000000f03f"},
      {"forward_backward_output", "0a0154 1202 1802 1a130a086c6f73733a73756d110000000000000c40"},
      {"sample_response", "0a0a 0801 120405000000 1a00 1a00 2001"},
      {"datum", "0a020a00 1a080a060a0271301801 220a12080a02713010031802"},
      {"tensor_data", "0a040000003f1801"},
  };
  for (const auto& [name, body] : bodies) {
    const WireType& type = *find_wire_type(name);
    const auto again = [&](const std::string& message) {
      return type.transcode(message, Encoding::proto, Encoding::proto, {});
    };
    const auto once = again(hex(body));
    ASSERT_THAT(once, IsOk()) << name;
    EXPECT_THAT(again(*once), IsOkAndHolds(*once)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Wire,
                         EveryJsonType,
                         ::testing::ValuesIn(kDocuments),
                         [](const auto& test) { return std::string(test.param.type); });

}  // namespace
}  // namespace tinker::wire::registry_test
