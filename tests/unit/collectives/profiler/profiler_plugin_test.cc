// SPDX-License-Identifier: Apache-2.0
// Finds and loads profiler plugins of every version.
#include "collectives/profiler/profiler_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "collectives/profiler/call_events.h"
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

// A plugin in C++ that throws in one of its functions, and counts its calls.
struct Throwing {
  static inline std::string in;
  static inline int calls = 0;
  static int call(const std::string& function) {
    ++calls;
    if (in == function) throw std::runtime_error("of the plugin");
    return 0;
  }
  static int init(abi::Any, void** context, int* mask, const About&) {
    *context = &calls;
    *mask = 0xffff;
    return call("init");
  }
  static int start(const abi::ProfilerTable&, void*, void** handle, const Event&) {
    *handle = &calls;
    return call("startEvent");
  }
  static int stop(void*) { return call("stopEvent"); }
  static int record(void*, int, void*) { return call("recordEventState"); }
  static int finish(void*) { return call("finalize"); }

  static constexpr abi::ProfilerTable kTable{"throwing", nullptr, nullptr, stop, record, finish};
  static constexpr Version kVersion{6, 0xffff, init, start};
};

TEST(ProfilerPlugin, OneThatThrowsGetsNoMoreEventsAndCallsGoOn) {
  for (const char* const function : {"startEvent", "stopEvent", "recordEventState", "finalize"}) {
    Throwing::in = function;
    Throwing::calls = 0;
    const ProfilerPlugin plugin(Throwing::kTable, Throwing::kVersion, "throwing.so");
    const std::shared_ptr<Profiler> profiler = Profiler::open(plugin, About{}).value();
    EXPECT_TRUE(profiler->wants(abi::kForGroupApi));
    { const GroupEvent event(profiler, 1, false); }  // starts, records, stops in its destructor
    const bool is_last = std::string(function) == "finalize";
    EXPECT_EQ(profiler->wants(abi::kForGroupApi), is_last) << function;
    const int calls = Throwing::calls;
    { const GroupEvent event(profiler, 1, false); }
    EXPECT_EQ(Throwing::calls > calls, is_last) << function;
  }
}
TEST(ProfilerPlugin, OneThatThrowsInInitIsNamedAndNotUsed) {
  Throwing::in = "init";
  const ProfilerPlugin plugin(Throwing::kTable, Throwing::kVersion, "throwing.so");
  const auto opened = Profiler::open(plugin, About{});
  ASSERT_EQ(opened.code(), StatusCode::kSystemError);
  EXPECT_THAT(
      opened.error().text,
      testing::AllOf(HasSubstr("plugin 'throwing' (throwing.so"), HasSubstr("threw in init"),
                     HasSubstr("of the plugin"), HasSubstr("NCCL_PROFILER_PLUGIN=none")));
}

}  // namespace
}  // namespace rondo::test
