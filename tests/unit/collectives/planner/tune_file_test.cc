// SPDX-License-Identifier: Apache-2.0
// Tune files: reading returns what was written; truncated, newer, damaged and foreign files are
// ignored.
#include "collectives/planner/tune_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"

namespace rondo {
namespace {

using test::TemporaryFolder;
using test::WithEnvironment;

TuneFile file_of_this_machine() {
  TuneFile file = tune_key_of_this_machine();
  for (double& rate : file.ns) rate *= 2;
  return file;
}

constexpr char kGpu[] = "Some GPU 80GB";
TuneFile file_with_gpus() {
  TuneFile file = file_of_this_machine();
  file.gpu = kGpu;
  file.device.set(gpu::DeviceRate::kLaunch, 5000);
  file.device.set(gpu::DeviceRate::kMemory, 1.0 / 3);
  return file;
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

std::string refusal(const std::string& text) {
  const auto parsed = parse_tune_file(text, "here.tune");
  return parsed.ok() ? "accepted" : parsed.error().text;
}

TEST(TuneFile, IsReadAsItWasWritten) {
  TuneFile file;
  file.cpu = "AMD EPYC, L2 1024 KiB";
  file.graph = 0x0123456789abcdefULL;
  file.ns[3] = 1.0 / 3;
  const auto read = parse_tune_file(format_tune_file(file), "here.tune");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->cpu, file.cpu);
  EXPECT_EQ(read->graph, file.graph);
  EXPECT_NEAR(read->ns[3], file.ns[3], 1e-6);
  EXPECT_EQ(read->ns[0], file.ns[0]);
}

TEST(TuneFile, HasOfGpusWhatWasMeasured) {
  const TuneFile file = file_with_gpus();
  const auto read = parse_tune_file(format_tune_file(file), "here.tune");
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->gpu, kGpu);
  EXPECT_EQ(read->device.measured, file.device.measured);
  EXPECT_EQ(read->device.of(gpu::DeviceRate::kLaunch), 5000);
  EXPECT_NEAR(read->device.of(gpu::DeviceRate::kMemory), 1.0 / 3, 1e-6);
  EXPECT_EQ(read->device.of(gpu::DeviceRate::kPeerByte),
            gpu::kDevicePriors.of(gpu::DeviceRate::kPeerByte));
  EXPECT_EQ(read->ns[0], file.ns[0]);
}

// An older Rondo must be able to read it.
TEST(TuneFile, WithoutGpusIsOfTheFirstVersion) {
  const std::string text = format_tune_file(file_of_this_machine());
  EXPECT_TRUE(text.starts_with("rondo tune 1\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("gpu")));
  EXPECT_TRUE(format_tune_file(file_with_gpus()).starts_with("rondo tune 2\n"));
}

TEST(TuneFile, ThatIsCutAnywhereIsRefused) {
  for (const TuneFile& file : {file_of_this_machine(), file_with_gpus()}) {
    const std::string text = format_tune_file(file);
    for (std::size_t length = 0; length < text.size(); ++length)
      EXPECT_NE(refusal(text.substr(0, length)), "accepted") << length;
    EXPECT_NE(refusal(text + "\n"), "accepted");
  }
}

TEST(TuneFile, NamesTheLineThatIsWrong) {
  const std::string text = format_tune_file(file_of_this_machine());
  const auto starts = [](const std::string& why, std::string_view with) {
    return why.starts_with(with);
  };
  EXPECT_TRUE(starts(refusal(replaced(text, "tune 1", "tune 3")), "here.tune: line 1: version 3"));
  EXPECT_TRUE(starts(refusal(replaced(text, "\ngraph ", "\ngraph x")), "here.tune: line 3"));
  EXPECT_TRUE(starts(refusal(replaced(text, "\nswitch ", "\nswatch ")), "here.tune: line 7"));
  EXPECT_TRUE(starts(refusal(replaced(text, "\nswitch ", "\ncall ")), "here.tune: line 7"));
  for (const char* bad :
       {"\ncall -", "\ncall 1e99", "\ncall nan", "\ncall inf", "\ncall  ", "\ncall x"})
    EXPECT_TRUE(starts(refusal(replaced(text, "\ncall ", bad)), "here.tune: line 4")) << bad;

  const std::string gpus = format_tune_file(file_with_gpus());
  EXPECT_TRUE(starts(refusal(replaced(gpus, "gpu Some GPU 80GB", "gpu ")), "here.tune: line 17"));
  EXPECT_TRUE(starts(refusal(replaced(gpus, "gpu Some", "goo Some")), "here.tune: line 17"));
  EXPECT_TRUE(starts(refusal(replaced(gpus, "tune 2", "tune 1")), "here.tune: line 17"));
  EXPECT_TRUE(starts(refusal(replaced(gpus, "\nlaunch ", "\nlunch ")), "here.tune: line 18"));
  EXPECT_TRUE(starts(refusal(replaced(gpus, "\nlaunch ", "\nlaunch -")), "here.tune: line 18"));
  EXPECT_TRUE(
      starts(refusal(replaced(gpus, "\nmemory 0.33", "\nlaunch 0.33")), "here.tune: line 19"));
}

HostCosts costs_by(const std::string& path) {
  const WithEnvironment variable("RONDO_TUNE_FILE", path);
  return costs_of_environment().host;
}

TEST(TuneFile, OfThisMachineCounts) {
  const TemporaryFolder folder;
  const TuneFile file = file_of_this_machine();
  const HostCosts costs = costs_by(folder.file("own", format_tune_file(file)));
  EXPECT_TRUE(costs.measured);
  EXPECT_NEAR(costs.ns[0], file.ns[0], 1e-3);
}

TEST(TuneFile, OfOtherGpusLeavesTheirPriorsAlone) {
  const TemporaryFolder folder;
  const WithEnvironment variable("RONDO_TUNE_FILE",
                                 folder.file("gpus", format_tune_file(file_with_gpus())));
  const TunedCosts own = costs_of_environment(kGpu);
  EXPECT_EQ(own.device.of(gpu::DeviceRate::kLaunch), 5000);
  EXPECT_TRUE(own.device.is_measured(gpu::DeviceRate::kLaunch));
  EXPECT_FALSE(own.device.is_measured(gpu::DeviceRate::kPeerByte));
  for (const char* name : {"Another GPU", ""}) {
    const TunedCosts other = costs_of_environment(name);
    EXPECT_EQ(other.device, gpu::kDevicePriors) << name;
    EXPECT_TRUE(other.host.measured) << name;
  }
}

TEST(TuneFile, OfAnotherMachineOrDamagedLeavesPriors) {
  const TemporaryFolder folder;
  const std::string text = format_tune_file(file_of_this_machine());
  const auto is_left_out = [&](const std::string& path) {
    const HostCosts costs = costs_by(path);
    return !costs.measured && costs.ns == host_priors();
  };
  EXPECT_TRUE(is_left_out(folder.file("cpu", replaced(text, "cpu ", "cpu Another "))));
  TuneFile elsewhere = file_of_this_machine();
  elsewhere.graph += 1;
  EXPECT_TRUE(is_left_out(folder.file("graph", format_tune_file(elsewhere))));
  EXPECT_TRUE(is_left_out(folder.file("cut", text.substr(0, text.size() / 2))));
  EXPECT_TRUE(is_left_out(folder.file("newer", replaced(text, "tune 1", "tune 9"))));
  EXPECT_TRUE(is_left_out(folder.path() + "/nothing"));
  EXPECT_TRUE(is_left_out(folder.path()));
  EXPECT_TRUE(is_left_out(""));
}

}  // namespace
}  // namespace rondo
