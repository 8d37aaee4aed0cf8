// SPDX-License-Identifier: Apache-2.0
// launch_env.h: a process finds its rank under each launcher, and rank 0 broadcasts bytes to the
// others.
#include "api/launch_env.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/ports.h"

extern "C" int launch_env_compiles_as_c(void);

namespace {

using Variables = std::map<std::string, std::string>;

// Unsets every relevant variable, before and after a test.
void clear_variables() {
  for (const char* name : {"RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "LOCAL_WORLD_SIZE",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "RONDO_JOB",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "MPI_LOCALRANKID",
                           "MPI_LOCALNRANKS",
                           "SLURM_PROCID",
                           "SLURM_NTASKS",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_LOCALID",
                           "SLURM_NODEID",
                           "SLURM_JOB_ID",
                           "SLURM_STEP_ID",
                           "SLURM_STEP_NODELIST",
                           "SLURM_STEP_TASKS_PER_NODE",
                           "TORCHELASTIC_USE_AGENT_STORE"})
    unsetenv(name);
}

class LaunchEnv : public testing::Test {
 protected:
  void SetUp() override { clear_variables(); }
  void TearDown() override { clear_variables(); }
  int read(const Variables& variables) {
    clear_variables();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    return rondo_launch_read(&me_);
  }
  rondo_launch_t me_;
};

TEST_F(LaunchEnv, IsAloneWhereNobodyLaunchedIt) {
  EXPECT_EQ(read({}), 0);
  EXPECT_EQ(me_.rank, 0);
  EXPECT_EQ(me_.size, 1);
}

TEST_F(LaunchEnv, UnderstandsEveryLauncher) {
  const std::vector<std::pair<Variables, std::string>> launchers{
      {{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}},
       "RANK"},
      {{{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "8"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"PMI_RANK", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "1"}},
       "OMPI_COMM_WORLD_RANK"},
      {{{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       "PMI_RANK"},
      {{{"SLURM_PROCID", "3"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_NODEID", "1"},
        {"SLURM_STEP_TASKS_PER_NODE", "2(x4)"}},
       "SLURM_PROCID"},
      // srun --mpi=pmi2: what PMI lacks comes from Slurm.
      {{{"PMI_RANK", "3"},
        {"PMI_SIZE", "8"},
        {"SLURM_PROCID", "3"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_NODEID", "2"},
        {"SLURM_STEP_TASKS_PER_NODE", "1,3,2(x2)"}},
       "PMI_RANK"}};
  for (const auto& [variables, source] : launchers) {
    EXPECT_EQ(read(variables), 1) << source;
    EXPECT_EQ(me_.rank, 3) << source;
    EXPECT_EQ(me_.size, 8) << source;
    EXPECT_EQ(me_.local_rank, 1) << source;
    EXPECT_EQ(me_.local_size, 2) << source;
    EXPECT_EQ(me_.source, source);
  }
}

// sbatch sets SLURM_NTASKS for the script itself, which has no peers.
TEST_F(LaunchEnv, IsAloneInABatchScript) {
  EXPECT_EQ(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}), 0);
  EXPECT_EQ(me_.size, 1);
}

// The number of ranks here is unknown if a launcher's list does not fit this host.
TEST_F(LaunchEnv, TakesNoNumberOfRanksFromAListThatDoesNotFit) {
  for (const char* list : {"", "x", "2(x", "2(x1)", "(x8)", "-1(x8)", "1,"})
    EXPECT_EQ((read({{"SLURM_PROCID", "3"},
                     {"SLURM_STEP_NUM_TASKS", "8"},
                     {"SLURM_NODEID", "1"},
                     {"SLURM_STEP_TASKS_PER_NODE", list}}),
               me_.local_size),
              -1)
        << list;
}

TEST_F(LaunchEnv, NamesTheHostOfRankZeroInAStepOfSlurm) {
  rondoLaunched_t launched{};
  launched.bytes = sizeof launched;
  const std::pair<const char*, const char*> lists[] = {{"one", "one"},
                                                       {"a-1,b", "a-1"},
                                                       {"n[03-05,7],z", "n03"},
                                                       {"r[2,4]n[10-12].lan", "r2n10.lan"},
                                                       {"", ""}};
  for (const auto& [list, first] : lists) {
    read({{"SLURM_STEP_NODELIST", list}, {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}});
    ASSERT_EQ(rondoLaunchRead(&launched), ncclSuccess);
    EXPECT_STREQ(launched.masterAddr, first);
    EXPECT_EQ(launched.masterPort, *list == '\0' ? 0 : 20000 + 31 * 12 + 3) << list;
  }
  read({{"SLURM_STEP_NODELIST", "n[1-2]"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "77"}});
  ASSERT_EQ(rondoLaunchRead(&launched), ncclSuccess);
  EXPECT_STREQ(launched.masterAddr, "head");
  EXPECT_EQ(launched.masterPort, 77);
  read({{"MASTER_PORT", "70000"}});
  EXPECT_EQ(rondoLaunchRead(&launched), ncclInvalidUsage);
  EXPECT_EQ(rondoLaunchRead(nullptr), ncclInvalidArgument);
  launched.bytes = 1;
  EXPECT_EQ(rondoLaunchRead(&launched), ncclInvalidArgument);
}

TEST_F(LaunchEnv, RefusesNonsense) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(read({{"RANK", "8"}, {"WORLD_SIZE", "8"}}), -1);
  EXPECT_EQ(read({{"RANK", "x"}, {"WORLD_SIZE", "8"}}), -1);
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), -1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("RANK='8'"), std::string::npos);
}

// Ranks as processes; each broadcasts three times and compares. `more` decides how they meet.
void broadcast(int ranks, const Variables& more, const std::string& local_size) {
  std::vector<pid_t> children;
  for (int rank = ranks - 1; rank >= 0; --rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
      setenv("LOCAL_WORLD_SIZE", local_size.c_str(), 1);
      for (const auto& [name, value] : more) setenv(name.c_str(), value.c_str(), 1);
      rondo_launch_t me;
      int wrong = rondo_launch_read(&me) != 1;
      for (int round = 0; round < 3 && !wrong; ++round) {
        char bytes[128];
        memset(bytes, rank == 0 ? 'a' + round : 0, sizeof bytes);
        wrong = rondo_launch_broadcast(&me, bytes, sizeof bytes, 300) != 0 ||
                bytes[0] != 'a' + round || bytes[127] != 'a' + round;
      }
      _exit(wrong);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(LaunchEnv, BroadcastsOnOneHost) { broadcast(5, {}, "5"); }

TEST_F(LaunchEnv, BroadcastsOverTcp) {
  broadcast(
      4,
      {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(rondo::test::reserved_port())}},
      "2");
}

TEST_F(LaunchEnv, GivesUpInTime) {
  ASSERT_EQ(
      read(
          {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"RONDO_JOB", "nobody"}}),
      1);
  char bytes[4];
  testing::internal::CaptureStderr();
  EXPECT_NE(rondo_launch_broadcast(&me_, bytes, sizeof bytes, 0.1), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("rank 1"), std::string::npos);
}

TEST_F(LaunchEnv, RefusesWhatIsNoLaunch) {
  rondoLaunch_t launch = nullptr;
  const void* all = nullptr;
  size_t size = 0;
  EXPECT_EQ(rondoLaunchMeet(nullptr, 0, 1, 1, 1, 1.0), ncclInvalidArgument);
  EXPECT_EQ(rondoLaunchMeet(&launch, 2, 2, 2, 1, 1.0), ncclInvalidArgument);
  EXPECT_EQ(rondoLaunchMeet(&launch, 0, 1, 1, 1, 0.0), ncclInvalidArgument);
  EXPECT_EQ(rondoLaunchExchange(launch, nullptr, 0, &all, &size, 1.0), ncclInvalidArgument);
  ASSERT_EQ(rondoLaunchMeet(&launch, 0, 1, 1, 1, 300.0), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(rondoLaunchExchange(launch, "four", 4, &all, &size, 300.0), ncclSuccess);
  EXPECT_EQ(std::string(static_cast<const char*>(all), size), "four");
  EXPECT_EQ(rondoLaunchLeave(launch), ncclSuccess);
  EXPECT_EQ(rondoLaunchLeave(launch), ncclInvalidArgument);
}

TEST_F(LaunchEnv, IsC) { EXPECT_EQ(launch_env_compiles_as_c(), 0); }

}  // namespace
