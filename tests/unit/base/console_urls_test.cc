#include "base/console_urls.h"

#include <gmock/gmock.h>

namespace tinker::base::console_urls_test {
namespace {

TEST(ConsoleUrls, LeadToThePagesOfTheConsole) {  // R1.18; texts as the official SDK makes them
  EXPECT_EQ(console_sessions_url(), "https://tinker.thinkingmachines.ai/sessions");
  EXPECT_EQ(console_session_url("s-1"), "https://tinker.thinkingmachines.ai/sessions/s-1");
  EXPECT_EQ(console_training_run_url("s:train:0"),
            "https://tinker.thinkingmachines.ai/training_runs/s:train:0");
  EXPECT_EQ(console_checkpoint_url("s:train:0", "weights/0001"),
            "https://tinker.thinkingmachines.ai/checkpoints/s%3Atrain%3A0/weights%2F0001");
  EXPECT_EQ(console_playground_url("tinker://s:train:0/weights/a b"),
            "https://tinker.thinkingmachines.ai/playground?mode=checkpoint&checkpoint="
            "tinker%3A%2F%2Fs%3Atrain%3A0%2Fweights%2Fa%20b");
  EXPECT_EQ(console_key_url("17/2"), "https://tinker.thinkingmachines.ai/keys/17%2F2");
  EXPECT_EQ(console_new_key_url("my laptop&co~1"),
            "https://tinker.thinkingmachines.ai/keys?new_key=true&key_name=my+laptop%26co~1");
}

}  // namespace
}  // namespace tinker::base::console_urls_test
