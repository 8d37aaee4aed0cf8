// SPDX-License-Identifier: Apache-2.0
// Ranks die by SIGKILL: the survivors finish with the bits of an undisturbed run.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <random>

#include "trainer_job.h"

namespace trainer_test {
namespace {

constexpr int kSteps = 24;

// The sums go along one tree over shards: who computes a shard does not matter, so no bit differs.
void expect_like_undisturbed(const TrainerJob& job, Arguments arguments = {}) {
  const Outcome disturbed = outcome(job);
  const Workplace place;
  arguments.insert(arguments.end(), {"--steps", std::to_string(kSteps)});
  const Outcome undisturbed = run(place, 1, arguments);
  EXPECT_EQ(disturbed.done, undisturbed.done);
  for (const auto& [step, loss] : disturbed.losses)
    EXPECT_EQ(loss, undisturbed.losses.at(step)) << "step " << step;
  EXPECT_LT(std::stod(undisturbed.losses.at(kSteps)), 0.9 * std::stod(undisturbed.losses.at(1)));
}

std::vector<int> statuses(int ranks, const std::vector<int>& killed) {
  std::vector<int> expected(ranks, 0);
  for (int rank : killed) expected[rank] = 128 + SIGKILL;
  return expected;
}

struct Death {
  int rank, step;
};

// Each victim kills itself during a step, while its first bucket is in flight.
void expect_survival(int ranks, const std::vector<Death>& deaths) {
  const Workplace place;
  Arguments arguments{"--steps", std::to_string(kSteps)};
  std::vector<int> killed;
  for (const Death& death : deaths) {
    arguments.push_back("--kill");
    arguments.push_back(std::to_string(death.rank) + "@" + std::to_string(death.step));
    killed.push_back(death.rank);
  }
  TrainerJob job(place, ranks, arguments);
  EXPECT_EQ(job.wait(), statuses(ranks, killed)) << job.output();
  SCOPED_TRACE(job.output());
  expect_like_undisturbed(job);
}

class TrainerDeath : public ::testing::TestWithParam<int> {};

TEST_P(TrainerDeath, InTheMiddleOfAStepIsSurvived) { expect_survival(4, {{GetParam(), 9}}); }

// Kills from outside, at a random moment.
TEST_P(TrainerDeath, AtAnyMomentIsSurvived) {
  const int step = static_cast<int>(std::random_device()() % (kSteps - 8)) + 1;
  SCOPED_TRACE("killed after step " + std::to_string(step));
  const Workplace place;
  // A large model, so that the signal arrives long before the end.
  const Arguments large{"--batch",   "512", "--hidden",    "256",
                        "--context", "32",  "--embedding", "16"};
  Arguments arguments = large;
  arguments.insert(arguments.end(), {"--steps", std::to_string(kSteps)});
  TrainerJob job(place, 4, arguments);
  ASSERT_TRUE(job.wait_for_step(step)) << job.output();
  job.kill(GetParam());
  const std::vector<int> ended = job.wait();
  if (ended == statuses(4, {})) GTEST_SKIP() << "training was over before the signal came";
  EXPECT_EQ(ended, statuses(4, {GetParam()})) << job.output();
  SCOPED_TRACE(job.output());
  expect_like_undisturbed(job, large);
}

INSTANTIATE_TEST_SUITE_P(OfRank, TrainerDeath, ::testing::Values(0, 1, 2, 3));

TEST(TrainerDeaths, TwoAtOnceAreSurvived) {
  expect_survival(4, {{1, 7}, {3, 7}});
  expect_survival(4, {{0, 7}, {1, 7}});
}

TEST(TrainerDeaths, OneAfterTheOtherUntilOneIsLeft) {
  expect_survival(4, {{0, 5}, {2, 6}, {1, 15}});
}

TEST(TrainerDeaths, InTheVeryFirstAndTheVeryLastStep) {
  expect_survival(3, {{0, 1}});
  expect_survival(3, {{2, kSteps}});
}

TEST(TrainerDeaths, SurvivorsWriteACheckpointThatAWholeTeamResumes) {
  const Workplace place;
  const Arguments arguments{"--checkpoint", place.file("checkpoint"), "--checkpoint-every", "4"};
  Arguments first = arguments;
  for (const char* more : {"--steps", "12", "--kill", "0@6"}) first.push_back(more);
  TrainerJob job(place, 4, first);
  EXPECT_EQ(job.wait(), statuses(4, {0})) << job.output();
  Arguments second = arguments;
  for (const std::string& more :
       {std::string("--steps"), std::to_string(kSteps), std::string("--resume")})
    second.push_back(more);
  TrainerJob resumed(place, 4, second);
  EXPECT_EQ(resumed.wait(), statuses(4, {})) << resumed.output();
  expect_like_undisturbed(resumed);
}

}  // namespace
}  // namespace trainer_test
