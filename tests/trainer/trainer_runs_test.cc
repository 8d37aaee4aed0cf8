// SPDX-License-Identifier: Apache-2.0
// Undisturbed runs have equal losses for any number of ranks, and across a resume.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <fstream>

#include "trainer_job.h"

namespace trainer_test {
namespace {

TEST(TrainerRuns, LossesHaveEqualBitsOnOneTwoAndFourRanks) {
  const Workplace place;
  const auto alone = run(place, 1, {"--steps", "12"});
  ASSERT_EQ(alone.size(), 12u);
  EXPECT_LT(std::stod(alone.at(12)), std::stod(alone.at(1)));
  EXPECT_EQ(run(place, 2, {"--steps", "12"}), alone);
  EXPECT_EQ(run(place, 4, {"--steps", "12"}), alone);
  EXPECT_EQ(run(place, 4, {"--steps", "12", "--reproducible"}), alone);
}

TEST(TrainerRuns, ThreeRanksDifferByRoundingAlone) {
  const Workplace place;
  const auto alone = run(place, 1, {"--steps", "12"});
  const auto three = run(place, 3, {"--steps", "12"});
  ASSERT_EQ(three.size(), alone.size());
  for (const auto& [step, loss] : alone)
    EXPECT_NEAR(std::stod(three.at(step)), std::stod(loss), 1e-5 * std::stod(loss)) << step;
}

TEST(TrainerRuns, ThreadsAndBucketsDoNotChangeABit) {
  const Workplace place;
  const auto plain = run(place, 2, {"--steps", "6"});
  EXPECT_EQ(run(place, 2, {"--steps", "6", "--threads-per-rank", "3"}), plain);
  EXPECT_EQ(run(place, 2, {"--steps", "6", "--bucket", "64"}), plain);
}

TEST(TrainerRuns, AResumedRunEqualsAnUninterruptedOne) {
  const Workplace place;
  const auto whole = run(place, 2, {"--steps", "15"});
  const std::string file = place.file("checkpoint");
  run(place, 2, {"--steps", "8", "--checkpoint", file, "--checkpoint-every", "5"});
  // With a different number of ranks; the log continues at the checkpoint's step.
  EXPECT_EQ(run(place, 4, {"--steps", "15", "--checkpoint", file, "--resume"}), whole);
}

TEST(TrainerRuns, AJobKilledAsAWholeResumesFromItsLastCheckpoint) {
  const Workplace undisturbed, place;
  Arguments arguments{"--steps", "100", "--checkpoint-every", "3", "--checkpoint"};
  arguments.push_back(place.file("checkpoint"));
  {
    TrainerJob job(place, 2, arguments);
    ASSERT_TRUE(job.wait_for_step(7)) << job.output();
  }  // all ranks are killed here
  arguments.push_back("--resume");
  EXPECT_EQ(run(place, 2, arguments), run(undisturbed, 2, {"--steps", "100"}));
}

TEST(TrainerRuns, ACorruptCheckpointEndsAllRanksWithOneClearSentence) {
  const Workplace place;
  const std::string file = place.file("checkpoint");
  const Arguments saving{"--steps", "3", "--checkpoint", file};
  run(place, 2, saving);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(1000) << "damage";
  Arguments resuming = saving;
  resuming.push_back("--resume");
  TrainerJob job(place, 2, resuming);
  EXPECT_EQ(job.wait(), std::vector<int>({1, 1}));
  EXPECT_NE(job.output().find("is corrupt: the checksum of its contents is wrong"),
            std::string::npos)
      << job.output();
}

TEST(TrainerRuns, WrongOptionsAreNamed) {
  const Workplace place;
  const std::pair<Arguments, const char*> cases[] = {
      {{"--stepz", "3"}, "'--stepz' is no option"},
      {{"--steps", "3.5"}, "'3.5' is no value for --steps"},
      {{"--steps"}, "--steps needs a value"},
      {{"--shards", "7"}, "--batch 64 is not a multiple of --shards 7"},
      {{"--resume"}, "--resume needs --checkpoint"},
      {{"--kill", "2"}, "'2' is no value for --kill"},
  };
  for (const auto& [arguments, text] : cases) {
    TrainerJob job(place, 1, arguments);
    EXPECT_EQ(job.wait(), std::vector<int>({2})) << job.output();
    EXPECT_NE(job.output().find(text), std::string::npos) << job.output();
  }
}

TEST(TrainerRuns, MoreRanksThanShardsAreRefused) {
  const Workplace place;
  TrainerJob job(place, 3, {"--shards", "2"});
  EXPECT_EQ(job.wait(), std::vector<int>({1, 1, 1}));
  EXPECT_NE(job.output().find("3 ranks need --shards 3 or more, not 2"), std::string::npos)
      << job.output();
}

}  // namespace
}  // namespace trainer_test
