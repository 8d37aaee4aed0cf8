// rondo tune as a command: what it writes is what RONDO_TUNE_FILE takes.
#include <gtest/gtest.h>

#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"

namespace {

TEST(TuneCommand, WritesAFileThatExplainReads) {
  const rondo::test::TemporaryFolder folder;
  const std::string file = folder.path() + "/here.tune";
  const std::string call = RONDO_PROGRAM " explain all_reduce 4K --ranks 2";
  EXPECT_NE(shell(call).text.find("on priors"), std::string::npos);
  // --force: other programs run beside this test.
  const Said said =
      shell(RONDO_PROGRAM " tune --only broadcast --min-time 0.001 --force --table " + file);
  ASSERT_EQ(said.status, 0) << said.text;
  EXPECT_NE(said.text.find("broadcast       direct"), std::string::npos) << said.text;
  const Said tuned = shell("RONDO_TUNE_FILE=" + file + " " + call);
  EXPECT_NE(tuned.text.find("rondo tune has measured"), std::string::npos) << tuned.text;
  const Said cut = shell("head -n 5 " + file + " > " + file + ".cut; NCCL_DEBUG=WARN " +
                         "RONDO_TUNE_FILE=" + file + ".cut " + call);
  EXPECT_NE(cut.text.find("on priors"), std::string::npos) << cut.text;
  EXPECT_NE(cut.text.find("cut short"), std::string::npos) << cut.text;
}

TEST(TuneCommand, RefusesACollectiveThatItDoesNotMeasure) {
  const Said said = shell(RONDO_PROGRAM " tune --only alltoall /dev/null");
  EXPECT_NE(said.status, 0);
  EXPECT_NE(said.text.find("alltoall"), std::string::npos) << said.text;
}

}  // namespace
