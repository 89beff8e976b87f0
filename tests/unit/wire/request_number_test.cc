// What can be told of a training request whose body makes no sense (PROTOCOL 10.17).
#include "wire/request_number.h"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/proto.h"

namespace tinker::wire {
namespace {

using ::testing::Optional;

const RequestNumber kSeventh = {.model_id = "run", .seq_id = 7};

std::string request(std::int64_t seq_id) {
  return encode_proto(ForwardBackwardRequest{.model_id = "run", .seq_id = seq_id}).value();
}

TEST(RequestNumber, IsReadOfJsonWhateverElseThereIs) {
  EXPECT_THAT(json_request_number(R"({"data":[{}],"seq_id":7,"model_id":"run","x":null})"),
              Optional(kSeventh));
}

TEST(RequestNumber, OfJsonNeedsBoth) {
  EXPECT_EQ(json_request_number(R"({"model_id":"run"})"), std::nullopt);
  EXPECT_EQ(json_request_number(R"({"seq_id":7})"), std::nullopt);
  EXPECT_EQ(json_request_number(R"({"model_id":7,"seq_id":7})"), std::nullopt);
  EXPECT_EQ(json_request_number(R"({"model_id":"run","seq_id":"7"})"), std::nullopt);
  EXPECT_EQ(json_request_number(R"({"model_id":"run","seq_id":7.5})"), std::nullopt);
  EXPECT_EQ(json_request_number(R"({"model_id":"run","seq_id":null})"), std::nullopt);
}

TEST(RequestNumber, IsNotReadOfWhatIsNoJson) {
  EXPECT_EQ(json_request_number(R"({"model_id":"run","seq_id":7)"), std::nullopt);
  EXPECT_EQ(json_request_number(R"(["run",7])"), std::nullopt);
  EXPECT_EQ(json_request_number(""), std::nullopt);
}

TEST(RequestNumber, IsReadOfProtobufWhoseDataMakeNoSense) {
  const std::string datum("\x1A\x02\x0A\x00", 4);  // an input with a chunk of no kind
  ASSERT_FALSE(decode_proto<ForwardBackwardRequest>(request(7) + datum).ok());

  EXPECT_THAT(proto_request_number(request(7) + datum), Optional(kSeventh));
}

TEST(RequestNumber, IsReadOfProtobufThatIsCutShortBehindIt) {
  EXPECT_THAT(proto_request_number(request(7) + "\x1A\x7F"), Optional(kSeventh));
}

TEST(RequestNumber, OfProtobufIsTheLastOne) {
  EXPECT_THAT(proto_request_number(request(3) + request(7)), Optional(kSeventh));
}

TEST(RequestNumber, OfProtobufNeedsBoth) {
  EXPECT_EQ(proto_request_number(std::string("\x10\x07", 2)), std::nullopt);
  EXPECT_EQ(proto_request_number("\x0A\x03run"), std::nullopt);
  EXPECT_EQ(proto_request_number("\x0A\x01\xFF\x10\x07"), std::nullopt);  // no text
  EXPECT_EQ(proto_request_number(R"({"model_id":"run","seq_id":7})"), std::nullopt);
  EXPECT_EQ(proto_request_number(""), std::nullopt);
}

}  // namespace
}  // namespace tinker::wire
