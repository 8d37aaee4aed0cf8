// SPDX-License-Identifier: Apache-2.0
// rondo tune on GPUs, real or emulated: RONDO_TUNE_FILE accepts its file, and explanations show the
// measured values. Values measured on an emulated GPU have no meaning.
#include <gtest/gtest.h>

#include "base/gpu.h"
#include "bench/gpu_lane.h"
#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"

namespace rondo::bench {
namespace {

TEST(GpuTuneCommand, WritesRatesByWhichCallsOnGpusAreExplained) {
  if (gpu_devices() == 0) GTEST_SKIP() << "no CUDA device: " << gpu_absence();
  const rondo::test::TemporaryFolder folder;
  const std::string file = folder.path() + "/here.tune";
  // --force: other programs run at the same time as this test.
  const ShellResult output = shell(
      RONDO_PROGRAM " tune --only all_gather --max 2K --min-time 0.001 --force --table " + file);
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find("ring:Simple:8"), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("not measured, priors are used: "), std::string::npos) << output.text;
  EXPECT_EQ(output.text.find("did not run as planned"), std::string::npos) << output.text;
  const ShellResult text = shell("cat " + file);
  EXPECT_NE(text.text.find("\ngpu " + gpu_name(0) + "\n"), std::string::npos) << text.text;

  const std::string call = RONDO_PROGRAM " explain all_gather 4K --ranks 4 --gpus 1";
  EXPECT_NE(shell(call).text.find("assumed, unmeasured"), std::string::npos);
  const ShellResult tuned = shell("RONDO_TUNE_FILE=" + file + " " + call);
  EXPECT_NE(tuned.text.find("by rondo tune"), std::string::npos) << tuned.text;
  const ShellResult ran = shell("RONDO_TUNE_FILE=" + file +
                                " NCCL_DEBUG=WARN " RONDO_PROGRAM
                                " bench all_gather -g 2 -b 1K -e 1K -n 2 --no-progress");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_EQ(ran.text.find("RONDO_TUNE_FILE"), std::string::npos) << ran.text;
}

}  // namespace
}  // namespace rondo::bench
