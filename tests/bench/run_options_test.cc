// SPDX-License-Identifier: Apache-2.0
// rondo run --bind and --log-dir; ranks start no ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"
#include "topology/deal_cpus.h"
#include "topology/host_topology.h"

namespace rondo::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using topology::CpuList;

std::string rondo_run(const std::string& arguments) {
  return shell(std::string(RONDO_PROGRAM) + " run " + arguments).text;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return (std::stringstream() << file.rdbuf()).str();
}

// What two ranks may use, by what they print.
void expect_cpus_of_ranks(const std::string& options, const std::vector<CpuList>& cpus) {
  const std::string text = rondo_run(
      options + " -- sh -c 'echo Cpus $(grep Cpus_allowed_list /proc/self/status | cut -f 2).'");
  for (std::size_t rank = 0; rank < cpus.size(); ++rank)
    EXPECT_THAT(text,
                HasSubstr(fmt::format("[{}] Cpus {}.\n", rank, topology::to_text(cpus[rank]))))
        << options;
}

TEST(RunOptions, BindKeepsEachRankOnItsCpus) {
  const CpuList allowed = topology::affinity_cpus();
  if (allowed.size() < 2) GTEST_SKIP() << "one CPU";
  const auto host = topology::discover();
  ASSERT_TRUE(host.ok());
  using topology::Binding;
  const auto dealt = [&](Binding binding) { return deal_cpus(*host, allowed, binding, 2); };
  expect_cpus_of_ranks("-n 2 --bind cores", dealt(Binding::kCores));
  expect_cpus_of_ranks("-n 2 --bind numa", dealt(Binding::kNumaNodes));
  expect_cpus_of_ranks("-n 2 --bind none", {allowed, allowed});
  if (!topology::may_bind_shares(topology::cpu_budget(), 2)) GTEST_SKIP() << "a quota of CPU time";
  for (const char* options : {"-n 2", "-n 2 --bind share"})
    expect_cpus_of_ranks(options, dealt(Binding::kShare));
}

TEST(RunOptions, RanksAreNotBoundIfThereAreMoreThanCores) {
  const CpuList allowed = topology::affinity_cpus();
  const auto ranks = allowed.size() + 1;
  expect_cpus_of_ranks(fmt::format("-n {}", ranks), std::vector<CpuList>(ranks, allowed));
}

TEST(RunOptions, AMaskOfOneCpuForAllRanksIsNamed) {
  const CpuList allowed = topology::affinity_cpus();
  if (allowed.size() < 2) GTEST_SKIP() << "one CPU";
  const std::string text =
      shell(
          fmt::format("NCCL_DEBUG=WARN taskset -c {} {} bench all_reduce --ranks 2 -b 4 -e 4 -n 1",
                      allowed.back(), RONDO_PROGRAM))
          .text;
  EXPECT_THAT(text, HasSubstr(fmt::format("the 2 ranks of this host may use only CPU {} ",
                                          allowed.back())));
}

TEST(RunOptions, LogDirKeepsEachRanksOutputInAFile) {
  const test::TemporaryFolder folder;
  const std::string logs = folder.path() + "/not/there/yet";
  const std::string text = rondo_run("-n 2 --log-dir " + logs +
                                     " -- sh -c 'echo out $RANK; echo err $RANK >&2; printf end'");
  for (const char* rank : {"0", "1"}) {
    const std::string log = text_of(logs + "/" + rank + ".log");
    for (const char* line : {"out ", "err "}) EXPECT_THAT(log, HasSubstr(line + std::string(rank)));
    EXPECT_THAT(log, HasSubstr("end\n"));
    EXPECT_EQ(log.find('['), std::string::npos) << log;
    EXPECT_THAT(text, HasSubstr("[" + std::string(rank) + "] out " + rank));
  }
}

TEST(RunOptions, ALogFileThatCannotBeWrittenIsReportedAndTheJobGoesOn) {
  const test::TemporaryFolder folder;
  // A file in the folder's place, and a link in a log's place.
  const std::string file = folder.file("file", "");
  EXPECT_THAT(rondo_run("-n 1 --log-dir " + file + " -- true"), HasSubstr("--log-dir " + file));
  ASSERT_EQ(symlink(file.c_str(), (folder.path() + "/0.log").c_str()), 0);
  EXPECT_THAT(rondo_run("-n 1 --log-dir " + folder.path() + " -- true"), HasSubstr("/0.log"));
  if (geteuid() != 0) GTEST_SKIP() << "the rest makes a device";
  // A full disk.
  const test::TemporaryFolder full;
  ASSERT_EQ(mknod((full.path() + "/0.log").c_str(), S_IFCHR | 0666, makedev(1, 7)), 0);
  const std::string text =
      rondo_run("-n 1 --log-dir " + full.path() + " -- sh -c 'echo one; echo two'");
  EXPECT_THAT(text, HasSubstr("No space left on device; the rest of rank 0's output is not in it"));
  EXPECT_THAT(text, HasSubstr("[0] two"));
}

TEST(RunOptions, AreForProcesses) {
  EXPECT_THAT(rondo_run("-n 1 --threads --bind numa -- true"), HasSubstr("leave --threads out"));
}

TEST(RanksOfARank, AreNotStarted) {
  const std::string nested = std::string(RONDO_PROGRAM) + " run -n 2 -- echo started";
  EXPECT_THAT(rondo_run("-n 1 --no-prefix -- " + nested),
              AllOf(HasSubstr("this process is rank 0 of the job RONDO_JOB="),
                    HasSubstr("rank 0 exited with status 2"), Not(HasSubstr("started\n"))));
  EXPECT_THAT(rondo_run("-n 1 --no-prefix -- env -u RONDO_JOB -u RANK " + nested),
              HasSubstr("[1] started\n"));
}

// The preloaded library takes RANK and the like from each rank, and ends ranks that ranks started.
TEST(RanksOfARank, AreNotStartedIfItCannotReadItsEnvironment) {
#ifdef RONDO_RANKS_UNKNOWN
  for (const char* command :
       {"bench all_reduce --ranks 2 -b 4 -e 4 -n 1", "doctor --self-test --ranks 2"})
    EXPECT_THAT(
        shell(std::string("LD_PRELOAD=" RONDO_RANKS_UNKNOWN " " RONDO_PROGRAM " ") + command).text,
        AllOf(HasSubstr("this process was started as a rank (--as-rank)"),
              Not(HasSubstr("a rank started this rank"))))
        << command;
#else
  GTEST_SKIP() << "nothing can be preloaded before a sanitizer";
#endif
}

}  // namespace
}  // namespace rondo::cli
