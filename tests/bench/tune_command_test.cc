// SPDX-License-Identifier: Apache-2.0
// rondo tune as a command: RONDO_TUNE_FILE accepts the file that it writes.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "bench/cli/other_load.h"
#include "tests/bench/shell.h"
#include "tests/support/ports.h"
#include "tests/support/temporary_folder.h"

namespace {

TEST(TuneCommand, WritesAFileThatExplainReads) {
  const rondo::test::TemporaryFolder folder;
  const std::string file = folder.path() + "/here.tune";
  const std::string call = RONDO_PROGRAM " explain all_reduce 4K --ranks 2";
  EXPECT_NE(shell(call).text.find("on priors"), std::string::npos);
  // --force: other programs run at the same time as this test.
  const ShellResult output =
      shell(RONDO_PROGRAM " tune --only broadcast --min-time 0.001 --force --table " + file);
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find("broadcast       direct"), std::string::npos) << output.text;
  const ShellResult tuned = shell("RONDO_TUNE_FILE=" + file + " " + call);
  EXPECT_NE(tuned.text.find("rondo tune has measured"), std::string::npos) << tuned.text;
  const ShellResult cut = shell("head -n 5 " + file + " > " + file + ".cut; NCCL_DEBUG=WARN " +
                                "RONDO_TUNE_FILE=" + file + ".cut " + call);
  EXPECT_NE(cut.text.find("on priors"), std::string::npos) << cut.text;
  EXPECT_NE(cut.text.find("cut short"), std::string::npos) << cut.text;
}

// Two machines, simulated by two names of this one. The side that listens decides what both
// measure.
TEST(TuneCommand, MeasuresTheNetworkWithAPeer) {
  const rondo::test::TemporaryFolder folder;
  const std::string port = std::to_string(rondo::test::reserved_port());
  const std::string tune = " timeout 500 " RONDO_PROGRAM " tune --min-time 0.001 --force ";
  const ShellResult output = shell(
      "cd " + folder.path() + "; export RONDO_SECRET=a-secret-of-two-machines; NCCL_HOSTID=one" +
      tune + "--only all_gather --max 64K --table --listen " + port +
      " one.tune >one.log 2>&1 & NCCL_HOSTID=two" + tune + "--table --peer 127.0.0.1:" + port +
      " two.tune; status=$?; wait $! && cat one.log && exit $status");
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find("link, link_byte and relay are measured over the network"),
            std::string::npos)
      << output.text;
  EXPECT_NE(output.text.find("one.tune: written"), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("two.tune: written"), std::string::npos) << output.text;
  EXPECT_EQ(output.text.find("all_reduce"), std::string::npos) << output.text;
}

TEST(TuneCommand, MeasuresWithNoPeerThatLacksTheSecretOrIsThisMachine) {
  const std::string port = std::to_string(rondo::test::reserved_port());
  const std::string tune = "timeout 500 " RONDO_PROGRAM " tune --min-time 0.001 ";
  const ShellResult without = shell("env -u RONDO_SECRET " + tune + "--peer 127.0.0.1:" + port);
  EXPECT_NE(without.status, 0);
  EXPECT_NE(without.text.find("RONDO_SECRET is not set"), std::string::npos) << without.text;

  const ShellResult same =
      shell("export RONDO_SECRET=a-secret-of-two-machines; " + tune + "--listen " + port +
            " >/dev/null 2>&1 & RONDO_SECRET=a-secret-of-two-machines " + tune +
            "--peer 127.0.0.1:" + port + "; status=$?; wait; exit $status");
  EXPECT_NE(same.status, 0);
  EXPECT_NE(same.text.find("the peer is this machine"), std::string::npos) << same.text;

  const ShellResult both = shell(tune + "--peer 127.0.0.1 --listen " + port);
  EXPECT_EQ(both.status, 2) << both.text;
}

// Another program computes meanwhile.
TEST(TuneCommand, WarnsOnABusyMachine) {
  const rondo::test::TemporaryFolder folder;
  std::atomic<bool> ended = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      while (!ended) {
      }
    });
  const ShellResult output = shell(RONDO_PROGRAM " tune --only reduce --max 1K --min-time 0.001 " +
                                   folder.path() + "/busy.tune");
  ended = true;
  for (std::thread& other : others) other.join();
  EXPECT_NE(output.text.find("rondo tune: WARN other programs use"), std::string::npos)
      << output.text;
}

TEST(OtherLoad, IsTheTimeOfAllCoresLessOurOwn) {
  const auto busy = rondo::cli::busy_seconds("cpu  100 20 30 900 50 4 6 40 7 8\ncpu0 1 2\n", 100);
  ASSERT_TRUE(busy.has_value());
  EXPECT_DOUBLE_EQ(*busy, 2.0);  // without idle, waiting, and guests, which are in user
  EXPECT_FALSE(rondo::cli::busy_seconds("intr 1 2", 100).has_value());
  EXPECT_FALSE(rondo::cli::busy_seconds("cpu  1 2 3", 100).has_value());
  const rondo::cli::CpuTime before{.busy = 10, .own = 1, .clock = 5};
  EXPECT_DOUBLE_EQ(rondo::cli::other_cores(before, {.busy = 16, .own = 3, .clock = 7}), 2.0);
  EXPECT_DOUBLE_EQ(rondo::cli::other_cores(before, {.busy = 11, .own = 3, .clock = 7}), 0.0);
  EXPECT_DOUBLE_EQ(rondo::cli::other_cores(before, before), 0.0);
}

// Each command that would use the file names it.
TEST(TuneCommand, OfAFileThatCannotBeUsedIsNamed) {
  const std::string with = "RONDO_TUNE_FILE=/nowhere/x.tune " RONDO_PROGRAM;
  for (const char* command : {" explain all_reduce", " explain all_reduce --json",
                              " simulate all_reduce 4K --ranks 2", " doctor"}) {
    const ShellResult output = shell(with + command);
    EXPECT_NE(output.text.find("'/nowhere/x.tune': No such file"), std::string::npos)
        << command << '\n'
        << output.text;
  }
  const ShellResult unset = shell("RONDO_TUNE_FILE= " RONDO_PROGRAM " explain all_reduce");
  EXPECT_EQ(unset.text.find("tune file"), std::string::npos) << unset.text;
}

TEST(TuneCommand, RefusesACollectiveThatItDoesNotMeasure) {
  const ShellResult output = shell(RONDO_PROGRAM " tune --only alltoall /dev/null");
  EXPECT_EQ(output.status, 2);
  EXPECT_NE(output.text.find("alltoall"), std::string::npos) << output.text;
}

}  // namespace
