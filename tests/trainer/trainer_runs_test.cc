// SPDX-License-Identifier: Apache-2.0
// Undisturbed runs have equal bits for any number of ranks, and across a resume.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "trainer_job.h"

namespace trainer_test {
namespace {

TEST(TrainerRuns, HaveEqualBitsOnAnyNumberOfRanks) {
  const Workplace place;
  const Outcome alone = run(place, 1, {"--steps", "12"});
  ASSERT_EQ(alone.losses.size(), 12u);
  EXPECT_LT(std::stod(alone.losses.at(12)), std::stod(alone.losses.at(1)));
  EXPECT_NE(alone.done.find("parameters "), std::string::npos) << alone.done;
  for (const int ranks : {2, 3, 4, 9}) {  // of 8 shards the ninth rank has none
    const Outcome together = run(place, ranks, {"--steps", "12"});
    EXPECT_EQ(together.losses, alone.losses) << ranks << " ranks";
    EXPECT_EQ(together.done, alone.done) << ranks << " ranks";
  }
  EXPECT_NE(run(place, 2, {"--steps", "12", "--seed", "2"}).done, alone.done);
}

TEST(TrainerRuns, AResumedRunEqualsAnUninterruptedOne) {
  const Workplace place;
  const Outcome whole = run(place, 2, {"--steps", "15"});
  const std::string file = place.file("checkpoint");
  run(place, 2, {"--steps", "8", "--checkpoint", file, "--checkpoint-every", "5"});
  const Outcome resumed = run(place, 4, {"--steps", "15", "--checkpoint", file, "--resume"});
  EXPECT_EQ(resumed.done, whole.done);
  ASSERT_FALSE(resumed.losses.empty());
  EXPECT_EQ(resumed.losses.begin()->first, 9);
}

TEST(TrainerRuns, AJobKilledAsAWholeResumesFromItsLastCheckpoint) {
  const Workplace place;
  Arguments arguments{"--steps", "100", "--checkpoint-every", "3", "--checkpoint"};
  arguments.push_back(place.file("checkpoint"));
  {
    TrainerJob job(place, 2, arguments);
    ASSERT_TRUE(job.wait_for_step(7)) << job.output();
  }  // all ranks are killed here
  arguments.push_back("--resume");
  const Outcome resumed = run(place, 2, arguments);
  EXPECT_GE(resumed.losses.begin()->first, 7) << "the checkpoint of step 6 was there";
  EXPECT_EQ(resumed.done, run(place, 2, {"--steps", "100"}).done);
}

TEST(TrainerRuns, AWrongCheckpointEndsAllRanksWithOneClearSentence) {
  const Workplace place;
  const std::string file = place.file("checkpoint");
  const Arguments saving{"--steps", "3", "--checkpoint", file};
  Arguments resuming = saving;
  resuming.push_back("--resume");
  const auto expect_refusal = [&](const Arguments& arguments, const char* why) {
    TrainerJob job(place, 2, arguments);
    EXPECT_EQ(job.wait(), std::vector<int>({1, 1}));
    EXPECT_NE(job.output().find(why), std::string::npos) << job.output();
  };
  expect_refusal(resuming, "leave out --resume to start anew");
  run(place, 2, saving);
  Arguments other = resuming;
  other.insert(other.end(), {"--seed", "2"});
  expect_refusal(other, "is of a run with other options or another text");
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(1000) << "damage";
  expect_refusal(resuming, "is corrupt: its checksum is wrong");
  run(place, 2, saving);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  expect_refusal(resuming, "is corrupt");
  std::filesystem::resize_file(file, 3);
  expect_refusal(resuming, "is none of this program");
}

TEST(TrainerRuns, WrongOptionsAreNamed) {
  const Workplace place;
  const std::pair<Arguments, const char*> cases[] = {
      {{"--stepz", "3"}, "'--stepz' is no option"},
      {{"--steps", "3.5"}, "'3.5' is no value for --steps"},
      {{"--steps"}, "--steps needs a value"},
      {{"--shards", "6"}, "--shards 6 is no power of two that divides --batch 64"},
      {{"--resume"}, "--resume needs --checkpoint"},
      {{"--kill", "2"}, "'2' is no value for --kill"},
      {{"--text", "/nowhere"}, "cannot read /nowhere"},
  };
  for (const auto& [arguments, text] : cases) {
    TrainerJob job(place, 1, arguments);
    EXPECT_EQ(job.wait(), std::vector<int>({2})) << job.output();
    EXPECT_NE(job.output().find(text), std::string::npos) << job.output();
  }
}

}  // namespace
}  // namespace trainer_test
