// SPDX-License-Identifier: Apache-2.0
// Finds, loads, starts and ends tuner plugins of every version. Errors name the value and the
// remedy.
#include "collectives/tuner/tuner_plugin.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tuner/tuners.h"

namespace rondo::test {
namespace {

using namespace tuner;

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

const TunerPlugin& test_tuner(const std::string& version) {
  return *TunerPlugin::load(tuner_file(version)).value();
}

TEST(TunerPlugin, TheNewestVersionThatALibraryHasIsTaken) {
  EXPECT_EQ(test_tuner("").version(), 6);
  EXPECT_EQ(test_tuner("").identity(), "RondoTest v6");
  for (int version = 2; version <= 6; ++version)
    EXPECT_EQ(test_tuner(std::to_string(version)).version(), version);
  EXPECT_EQ(TunerPlugin::load(tuner_file()).value(), &test_tuner("")) << "loaded twice";
}

TEST(TunerPlugin, WhatIsNoPluginIsNamedWithTheRemedy) {
  EXPECT_EQ(TunerPlugin::load("/nowhere/libnccl-tuner-x.so").error().text,
            "the tuner plugin /nowhere/libnccl-tuner-x.so does not exist: correct "
            "NCCL_TUNER_PLUGIN, or set it to none");
  expect_parts(TunerPlugin::load("libnccl-tuner-nowhere.so").error().text,
               {"libnccl-tuner-nowhere.so cannot be loaded", "NCCL_TUNER_PLUGIN", "none"});
  const TemporaryFolder folder;
  const std::string text = folder.file("text.so", "no library");
  expect_parts(TunerPlugin::load(text).error().text, {text, "cannot be loaded"});
  const std::string fifo = folder.path() + "/fifo.so";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_parts(TunerPlugin::load(fifo).error().text,
               {fifo, "it is a FIFO, not a regular file", "NCCL_TUNER_PLUGIN"});
  expect_parts(TunerPlugin::load(tuner_file("7")).error().text,
               {"rondotest7.so is not a tuner plugin", "ncclTunerPlugin_v2", "ncclTunerPlugin_v6",
                "NCCL_TUNER_PLUGIN"});
}

TEST(TunerPlugin, IsFoundByItsVariableOrBesideTheNetworks) {
  const auto found = [](const std::string& value) {
    const WithEnvironment variable("NCCL_TUNER_PLUGIN", value);
    return find_tuner();
  };
  EXPECT_EQ(find_tuner().value(), nullptr);
  EXPECT_EQ(found("none").value(), nullptr);
  EXPECT_EQ(found("NONE").value(), nullptr);
  EXPECT_EQ(found(tuner_file("4")).value(), &test_tuner("4"));
  expect_parts(found("nowhere").error().text, {"libnccl-tuner-nowhere.so cannot be loaded"});

  const WithEnvironment network("NCCL_NET_PLUGIN", tuner_file("3"));
  EXPECT_EQ(find_tuner().value(), &test_tuner("3"));
  EXPECT_EQ(found("none").value(), nullptr);
  EXPECT_EQ(found(tuner_file("5")).value(), &test_tuner("5"));
}

// A library that was not requested as a tuner may be something else.
TEST(TunerPlugin, ANetworkPluginThatTunesNothingIsPassedOver) {
  const WithEnvironment network("NCCL_NET_PLUGIN", tuner_file("7"));
  EXPECT_EQ(find_tuner().value(), nullptr);
}

class TunerVersions : public testing::TestWithParam<const char*> {
 protected:
  const TunerCounts counts_{GetParam()};
  const TunerPlugin& plugin_ = test_tuner(GetParam());
  const About about_{
      .communicator = 7, .ranks = 8, .hosts = 2, .min_ranks_of_host = 4, .max_ranks_of_host = 4};
};

TEST_P(TunerVersions, AnswersAndIsEndedWithTheCommunicator) {
  const long asked = counts_.of("asks");
  {
    const WithEnvironment words("RONDO_TEST_TUNER",
                                "algorithm=0 protocol=1 channels=3 max_bytes=4096");
    const auto tuner = Tuner::open(plugin_, about_).value();
    EXPECT_EQ(counts_.of("contexts"), 1);
    abi::Costs costs;
    for (auto& row : costs) std::fill(std::begin(row), std::end(row), abi::kIgnored);
    costs[abi::kRing][abi::kLL] = 9;
    const Answer small = tuner->ask(Collective::kBroadcast, 4096, costs);
    EXPECT_EQ(small.result, 0);
    EXPECT_EQ(small.channels, 3);
    EXPECT_EQ(costs[abi::kTree][abi::kLL128], 0);
    EXPECT_EQ(costs[abi::kRing][abi::kLL], 9);
    costs[abi::kTree][abi::kLL128] = 5;
    const Answer large = tuner->ask(Collective::kBroadcast, 4097, costs);
    EXPECT_EQ(large.channels, 0);
    EXPECT_EQ(costs[abi::kTree][abi::kLL128], 5);
  }
  EXPECT_EQ(counts_.of("asks") - asked, 2);
  EXPECT_EQ(counts_.of("contexts"), 0);
  EXPECT_EQ(counts_.of("complaints"), 0);
}

TEST_P(TunerVersions, OneThatFailsIsNamedWithFunctionAndResult) {
  const std::string who =
      "plugin 'RondoTest' (" + tuner_file(GetParam()) + ", ncclTunerPlugin_v" + GetParam() + "): ";
  {
    const WithEnvironment words("RONDO_TEST_TUNER", "fail=init");
    const auto tuner = Tuner::open(plugin_, about_);
    ASSERT_FALSE(tuner.ok());
    expect_parts(tuner.error().text, {who + "init() gave ncclSystemError (2)", "NCCL_DEBUG=INFO",
                                      "NCCL_TUNER_PLUGIN=none"});
  }
  for (const char* function : {"getCollInfo", "finalize"}) {
    const WithEnvironment words("RONDO_TEST_TUNER", std::string("fail=") + function);
    const auto tuner = Tuner::open(plugin_, about_).value();
    abi::Costs costs{};
    const int result = tuner->ask(Collective::kAllReduce, 8, costs).result;
    EXPECT_EQ(result, function == std::string("getCollInfo") ? 2 : 0);
    expect_parts(tuner->failure_to_answer(2).text, {who + "getCollInfo() gave ncclSystemError"});
  }
  EXPECT_EQ(counts_.of("contexts"), 0);
}

INSTANTIATE_TEST_SUITE_P(Every, TunerVersions, testing::Values("2", "3", "4", "5", "6"),
                         [](const auto& info) { return std::string("V") + info.param; });

}  // namespace
}  // namespace rondo::test
