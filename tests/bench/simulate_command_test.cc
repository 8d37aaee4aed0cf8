// SPDX-License-Identifier: Apache-2.0
// rondo simulate on the command line.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"

namespace {

ShellResult simulate(const std::string& words) { return shell(RONDO_PROGRAM " simulate " + words); }

TEST(SimulateCommand, PredictsEverySizeAndMarksThePlannersChoice) {
  const auto result = simulate("all_reduce --topo dgx-h100 -b 1K -e 1M -f 32 --algo all");
  EXPECT_EQ(result.status, 0) << result.text;
  for (const char* const text : {"8 GPUs on 1 host of dgx-h100", "nothing here was measured",
                                 "1024", "32768", "1048576", "ring", "tree", "oneshot", ">"})
    EXPECT_NE(result.text.find(text), std::string::npos) << text << "\n" << result.text;
}

TEST(SimulateCommand, RepeatsItself) {
  const char* const call = "all_gather --topo dgx-a100 --hosts 2 -b 64M -e 64M --algo all";
  EXPECT_EQ(simulate(call).text, simulate(call).text);
}

TEST(SimulateCommand, WritesRowsForPrograms) {
  const rondo::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/simulated.csv";
  const auto result = simulate("broadcast --topo hgx-a100-4 -b 1M -e 2M --csv " + path);
  EXPECT_EQ(result.status, 0) << result.text;
  std::ifstream file(path);
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) ++rows;
  EXPECT_EQ(rows, 3);  // two sizes and the header row
}

TEST(SimulateCommand, PredictsMessagesWithinAHostAndBetweenHosts) {
  for (const char* const collective : {"all_to_all", "gather", "scatter", "sendrecv"}) {
    for (const char* const hosts : {"1", "2"}) {
      const auto result = simulate(std::string(collective) + " --topo dgx-a100 --hosts " + hosts +
                                   " -b 16M -e 16M --algo messages");
      EXPECT_EQ(result.status, 0) << result.text;
      EXPECT_NE(result.text.find(" messages     Simple"), std::string::npos) << result.text;
    }
  }
}

TEST(SimulateCommand, SumsInSwitchesThatCan) {
  const auto summed = simulate("all_reduce --topo dgx-h100 -b 1G -e 1G --algo all");
  EXPECT_NE(summed.text.find(" nvls "), std::string::npos) << summed.text;
  const auto none = simulate("all_reduce --topo dgx-a100 -b 1G -e 1G --algo nvls");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.text.find("no kernel of that name"), std::string::npos) << none.text;
}

TEST(SimulateCommand, NamesWhatThereIs) {
  const auto unknown = simulate("all_reduce --topo dgx-9");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.text.find("there is no file or known machine 'dgx-9': did you mean dgx-"),
            std::string::npos)
      << unknown.text;
  const auto foreign = simulate("all_reduce --algo pat");
  EXPECT_EQ(foreign.status, 2);
  EXPECT_NE(foreign.text.find("no kernel of that name"), std::string::npos) << foreign.text;
  const auto sizes = simulate("all_reduce -b 2M -e 1M");
  EXPECT_EQ(sizes.status, 2);
  EXPECT_NE(sizes.text.find("give two sizes above 0, the smaller first"), std::string::npos)
      << sizes.text;
}

// As rondo explain takes it.
TEST(SimulateCommand, TakesOneSizeBehindTheCollective) {
  const auto one = simulate("all_reduce 64M");
  EXPECT_EQ(one.status, 0) << one.text;
  EXPECT_EQ(one.text, simulate("all_reduce -b 64M -e 64M").text);
  EXPECT_NE(one.text.find(" 67108864 "), std::string::npos) << one.text;
  EXPECT_EQ(simulate("all_reduce 64Q").text,
            "rondo simulate: '64Q' is not a size such as 4096, 64K or 1.5M\n");
  EXPECT_EQ(simulate("all_reduce 64M -e 1G").status, 2);
}

TEST(SimulateCommand, HasColumnsForTheLongestName) {
  const auto all = simulate("all_reduce --ranks 8 --cores 8 -b 64K -e 64K --algo all");
  std::istringstream lines(all.text);
  std::size_t column = 0, rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" proto ") != line.npos) column = line.find(" proto ") + 1;
    if (line.starts_with('#')) continue;
    ++rows;
    const std::string protocol = line.substr(column, line.find(' ', column) - column);
    EXPECT_TRUE(line[column - 1] == ' ' && line[column] != ' ' && protocol.size() > 1) << line;
  }
  EXPECT_GT(rows, 3u) << all.text;
}

// Simulated time does not need these cores, and results are the same everywhere.
TEST(SimulateCommand, SimulatesRanksInHostMemoryThatShareCores) {
  const std::string call = "all_reduce --ranks 8 --cores 2 -b 64K -e 1M -f 4 --algo all";
  const auto result = simulate(call);
  EXPECT_EQ(result.status, 0) << result.text;
  for (const char* const text :
       {"8 ranks in host memory, processes, on 2 cores", "on priors", ">* twoshot      staged",
        "oneshot      staged", "closed form", "65536", "1048576"})
    EXPECT_NE(result.text.find(text), std::string::npos) << text << "\n" << result.text;
  EXPECT_EQ(simulate(call).text, result.text);
  EXPECT_NE(simulate(call + " --threads").text.find("threads of one process"), std::string::npos);
  // The algorithm that NCCL_ALGO permits is marked as chosen.
  const auto forced = shell("NCCL_ALGO=oneshot " RONDO_PROGRAM " simulate " + call);
  EXPECT_NE(forced.text.find(">  oneshot"), std::string::npos) << forced.text;
}

TEST(SimulateCommand, WritesRowsOfRanksInHostMemory) {
  const rondo::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/simulated_host.csv";
  const auto result = simulate("reduce --ranks 4 --cores 4 -b 1K -e 1K --algo all --csv " + path);
  EXPECT_EQ(result.status, 0) << result.text;
  std::ifstream file(path);
  std::string names, row;
  std::getline(file, names);
  std::getline(file, row);
  EXPECT_EQ(row.find("reduce,1024,256,float,sum,oneshot,staged,0,"), 0U) << row;
  EXPECT_NE(row.find(",1,simulated,,"), std::string::npos) << row;
}

TEST(SimulateCommand, PrintsJsonInPlaceOfTheTable) {
  const auto result = simulate(
      "all_reduce --topo dgx-h100 -b 1M -e 2M --algo all --json | python3 -c '"
      "import json, sys; rows = json.load(sys.stdin)[\"results\"];"
      "print({row[\"size_bytes\"] for row in rows} == {1 << 20, 2 << 20},"
      " min(row[\"time_us\"] for row in rows) > 0,"
      " [row[\"planned\"] for row in rows].count(True))'");
  EXPECT_NE(result.text.find("True True 2"), std::string::npos) << result.text;
}

TEST(SimulateCommand, NamesWhatRanksInHostMemoryCannotBe) {
  const auto refused = [](const std::string& words, const std::string& text) {
    const auto result = simulate("all_reduce " + words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_NE(result.text.find(text), std::string::npos) << result.text;
  };
  refused("--ranks 8 --cores 0", "--cores: Value 0 not in range");
  refused("--ranks 1", "--ranks: Value 1 not in range");
  refused("--ranks 8 --algo pat", "'pat' of all_reduce: no algorithm of that name");
  refused("--ranks 8 --topo dgx-h100", "--ranks");
  refused("--cores 2", "--ranks");
  refused("--ranks 8 -r 8", "--root 8 is not a rank");
}

}  // namespace
