// SPDX-License-Identifier: Apache-2.0
// Finds and loads profiler plugins of every version.
#include "collectives/profiler/profiler_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "tests/support/profiler/profilers.h"
#include "tests/support/tuner/tuners.h"

namespace rondo::test {
namespace {

using namespace profiler;
using testing::HasSubstr;

TEST(ProfilerPlugin, TheNewestVersionThatALibraryHasIsTaken) {
  EXPECT_EQ(ProfilerPlugin::load(profiler_file()).value()->version(), 6);
  for (int version = 1; version <= 6; ++version)
    EXPECT_EQ(ProfilerPlugin::load(profiler_file(std::to_string(version))).value()->version(),
              version);
  EXPECT_EQ(ProfilerPlugin::load(profiler_file()).value(),
            ProfilerPlugin::load(profiler_file()).value())
      << "loaded twice";
}

TEST(ProfilerPlugin, IsFoundByItsVariableAndOnGpusBesideTheNetworks) {
  const auto found = [](const std::string& value, bool on_device) {
    const WithEnvironment variable("NCCL_PROFILER_PLUGIN", value);
    return find_profiler(on_device);
  };
  for (const bool on_device : {false, true}) {
    EXPECT_EQ(found("none", on_device).value(), nullptr);
    EXPECT_EQ(found("None", on_device).value(), nullptr);
    EXPECT_EQ(found(profiler_file("4"), on_device).value()->version(), 4);
    EXPECT_THAT(found("nowhere", on_device).error().text,
                HasSubstr("libnccl-profiler-nowhere.so cannot be loaded"));
    EXPECT_EQ(find_profiler(on_device).value(), nullptr);
  }
  const WithEnvironment network("NCCL_NET_PLUGIN", profiler_file("3"));
  EXPECT_EQ(find_profiler(true).value()->version(), 3);
  EXPECT_EQ(find_profiler(false).value(), nullptr) << "ranks on host memory, not asked";
  EXPECT_EQ(found(profiler_file("5"), true).value()->version(), 5);
}

TEST(ProfilerPlugin, WhatIsNoPluginIsNamedWithTheRemedy) {
  EXPECT_THAT(ProfilerPlugin::load(tuner_file("5")).error().text,
              testing::AllOf(HasSubstr("is not a profiler plugin"), HasSubstr("ncclProfiler_v1"),
                             HasSubstr("ncclProfiler_v6"), HasSubstr("NCCL_PROFILER_PLUGIN"),
                             HasSubstr("none")));
}

}  // namespace
}  // namespace rondo::test
