#include "api/redactor.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace tinker::api::redactor_test {
namespace {

TEST(Redactor, ReplacesEverySecretOnce) {
  Redactor redactor;
  redactor.keep("first-secret");
  const auto pin = redactor.use("second-secret");

  EXPECT_EQ(redactor.redact("a first-secret, second-secret, first-secret."),
            "a [redacted], [redacted], [redacted].");
  EXPECT_EQ(redactor.redact("nothing"), "nothing");
  EXPECT_EQ(redactor.redact(""), "");
}

TEST(Redactor, NeverReadsItsOwnOutput) {
  Redactor redactor;
  redactor.keep("[redacted]");
  redactor.keep("redacted");
  redactor.keep("some-secret");

  EXPECT_EQ(redactor.redact("redacted [redacted] some-secret"), "[redacted] [redacted] [redacted]");
}

TEST(Redactor, LeavesNothingOfSecretsThatOverlap) {
  Redactor redactor;
  redactor.keep("abcdefgh");
  redactor.keep("abcdefghij");
  redactor.keep("ghijklmnop");
  redactor.keep("zzzzzzzz");

  EXPECT_EQ(redactor.redact("<abcdefghij>"), "<[redacted]>");
  EXPECT_EQ(redactor.redact("<abcdefghijklmnop>"), "<[redacted]>");
  EXPECT_EQ(redactor.redact("<zzzzzzzzzzz>"), "<[redacted]>");
}

TEST(Redactor, LeavesShortTextsAlone) {
  Redactor redactor;
  redactor.keep("");
  redactor.keep("model");

  EXPECT_EQ(redactor.use("model"), nullptr);
  EXPECT_EQ(redactor.redact("a model"), "a model");
}

TEST(Redactor, TakesASecretAcrossTheLimitOutWhole) {
  Redactor redactor;
  redactor.keep("some-secret");

  EXPECT_EQ(redactor.redact("0123 some-secret 0123", 8), "0123 [redacted]");
  EXPECT_EQ(redactor.redact("0123 some-secret 0123", 18), "0123 [redacted] 0");
  EXPECT_EQ(redactor.redact("0123 some-secret 0123", 5), "0123 ");
}

TEST(Redactor, ForgetsTheLeastRecentlyUsedThatNobodyHolds) {
  Redactor redactor;
  const auto held = redactor.use("held-for-long");
  for (int i = 0; i < 500; ++i) {
    EXPECT_NE(redactor.use("exchanged-token-" + std::to_string(1000 + i)), nullptr);
    EXPECT_NE(redactor.use("used-again-and-again"), nullptr);
  }

  EXPECT_EQ(redactor.size(), Redactor::kMaxIdle);
  EXPECT_EQ(redactor.redact("held-for-long used-again-and-again exchanged-token-1499"),
            "[redacted] [redacted] [redacted]");
  EXPECT_EQ(redactor.redact("exchanged-token-1000"), "exchanged-token-1000");
}

TEST(Redactor, HoldsAsManyAsAreInFlight) {
  Redactor redactor;
  std::vector<Redactor::Pin> in_flight;
  for (int i = 0; i < 500; ++i) {
    in_flight.push_back(redactor.use("exchanged-token-" + std::to_string(1000 + i)));
  }
  EXPECT_EQ(redactor.redact("exchanged-token-1000"), "[redacted]");

  in_flight.clear();
  EXPECT_NE(redactor.use("one-more-token"), nullptr);

  EXPECT_EQ(redactor.size(), Redactor::kMaxIdle);
}

}  // namespace
}  // namespace tinker::api::redactor_test
