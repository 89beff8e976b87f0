#include "http/content_range.h"

#include <gtest/gtest.h>

namespace tinker::http::content_range_test {
namespace {

TEST(ContentRange, ReadsWhatServersSend) {  // RFC 9110, section 14.4
  const auto range = parse_content_range("bytes 5-9/1234");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 5);
  EXPECT_EQ(range->end, 10);
  EXPECT_EQ(range->total, 1234);
}

TEST(ContentRange, RefusesAllElse) {
  for (const char* text : {"",
                           "bytes",
                           "bytes */1234",
                           "bytes 5-9/*",
                           "bytes 9-5/1234",
                           "bytes 5-1234/1234",
                           "bytes 5-9/1234x",
                           "bytes -5-9/1234",
                           "items 5-9/1234",
                           "bytes 5-99999999999999999999/9"}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

TEST(ContentLength, IsDigitsAlone) {
  EXPECT_EQ(parse_length("42"), 42);
  for (const char* text : {"", "-1", "4 2", "0x2a", "42,42", "99999999999999999999"}) {
    EXPECT_FALSE(parse_length(text)) << text;
  }
  EXPECT_EQ(content_length({{"Content-Length", "7"}}), 7);
  EXPECT_FALSE(content_length({}));
}

}  // namespace
}  // namespace tinker::http::content_range_test
