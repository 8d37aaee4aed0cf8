// rondo simulate as people call it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/bench/shell.h"

namespace {

Said simulate(const std::string& words) { return shell(RONDO_PROGRAM " simulate " + words); }

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
  const std::string path = ::testing::TempDir() + "/simulated.csv";
  const auto result = simulate("broadcast --topo hgx-a100-4 -b 1M -e 2M --csv " + path);
  EXPECT_EQ(result.status, 0) << result.text;
  std::ifstream file(path);
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) ++rows;
  EXPECT_EQ(rows, 3);  // two sizes below their names
  std::filesystem::remove(path);
}

TEST(SimulateCommand, PredictsMessagesWithinAHostAndBetweenHosts) {
  for (const char* const collective : {"all_to_all", "gather", "scatter", "sendrecv"}) {
    for (const char* const hosts : {"1", "2"}) {
      const auto result = simulate(std::string(collective) + " --topo dgx-a100 --hosts " + hosts +
                                   " -b 16M -e 16M --algo messages");
      EXPECT_EQ(result.status, 0) << result.text;
      EXPECT_NE(result.text.find(" messages Simple"), std::string::npos) << result.text;
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
  EXPECT_NE(unknown.text.find("'dgx-9' is neither a file nor a known machine"), std::string::npos)
      << unknown.text;
  const auto foreign = simulate("all_reduce --algo pat");
  EXPECT_EQ(foreign.status, 2);
  EXPECT_NE(foreign.text.find("no kernel of that name"), std::string::npos) << foreign.text;
  const auto sizes = simulate("all_reduce -b 2M -e 1M");
  EXPECT_EQ(sizes.status, 2);
  EXPECT_NE(sizes.text.find("no sizes from less to more"), std::string::npos) << sizes.text;
}

}  // namespace
