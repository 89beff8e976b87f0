#include "http/chunked_reader.h"

#include <string>

#include <gtest/gtest.h>

namespace tinker::http::chunked_reader_test {
namespace {

struct Outcome {
  std::string body = {};
  std::string rest = {};
  bool is_complete = false;
  bool is_broken = false;
};

Outcome read(std::string_view bytes, std::size_t piece_size = 1000) {
  ChunkedReader reader;
  Outcome out;
  while (!bytes.empty() && !reader.is_complete() && !reader.is_broken()) {
    std::string_view piece = bytes.substr(0, piece_size);
    bytes.remove_prefix(piece.size());
    for (auto data = reader.next(piece); !data.empty(); data = reader.next(piece)) out.body += data;
    out.rest = piece;
  }
  out.rest += bytes;
  out.is_complete = reader.is_complete();
  out.is_broken = reader.is_broken();
  return out;
}

TEST(ChunkedReader, ReadsABodyHoweverItIsCut) {
  const std::string bytes = "5;a=b\r\nhello\r\n00A\r\n, world!!!\r\n0\r\nTrailer: x\r\n\r\nGET";
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    const Outcome outcome = read(bytes, size);
    EXPECT_EQ(outcome.body, "hello, world!!!");
    EXPECT_TRUE(outcome.is_complete);
    EXPECT_EQ(outcome.rest, "GET");
  }
}

TEST(ChunkedReader, WaitsForTheEnd) {
  const Outcome outcome = read("3\r\nabc\r\n0\r\n");
  EXPECT_EQ(outcome.body, "abc");
  EXPECT_FALSE(outcome.is_complete);
  EXPECT_FALSE(outcome.is_broken);
}

TEST(ChunkedReader, RefusesWhatOthersMightReadDifferently) {
  for (const std::string bad : {"\r\n",
                                " 5\r\nhello\r\n",
                                "5 \r\nhello\r\n",
                                "0x5\r\nhello\r\n",
                                "-5\r\nhello\r\n",
                                "+5\r\nhello\r\n",
                                "5\nhello\r\n",
                                "5\rhello\r\n",
                                "5\r\nhello\n",
                                "5\r\nhelloX\r\n",
                                "5;a\nhello\r\n",
                                "10000000000000000\r\n",
                                "0\r\nA: b\n\r\n",
                                "0\r\n\rX"}) {
    EXPECT_TRUE(read(bad).is_broken) << bad;
  }
}

TEST(ChunkedReader, BoundsExtensionsAndTrailers) {
  EXPECT_TRUE(read("5;" + std::string(2000, 'x')).is_broken);
  EXPECT_TRUE(read("0\r\n" + std::string(20'000, 'x')).is_broken);
}

}  // namespace
}  // namespace tinker::http::chunked_reader_test
