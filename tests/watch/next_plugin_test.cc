// SPDX-License-Identifier: Apache-2.0
// The plugin after librondo-watch.so (RONDO_WATCH_NEXT) gets what NCCL would give it.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/profiler/profilers.h"
#include "tests/watch/plugin_caller.h"

namespace rondo::test {
namespace {

// What the test plugin writes about a few calls, alone or after the watch.
std::string shape_with(const std::string& plugin, const Environment& more) {
  const TemporaryFolder folder;
  Environment all{{"RONDO_TEST_PROFILER_FOLDER", folder.path()}};
  all.insert(all.end(), more.begin(), more.end());
  std::string shape;
  const StatusJob status;
  Job job(as_processes(1).under(status.environment()).under(all));
  job.create = false;
  RankProcesses ranks(job, [&](RankSeat&) {
    SimulatedRank rank({.plugin = plugin}, make_simulated_comm());
    rank.collective("AllReduce", 42);
    rank.wait_for_gpu();
    rank.collective("Broadcast", 7, 0);
    rank.wait_for_gpu();
    EXPECT_EQ(own_rank().finished, plugin == RONDO_TEST_WATCH_PLUGIN ? 2u : 0u);
  });
  EXPECT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  return shape_of(profiler_lines(folder.path(), ranks.pid(0)));
}

TEST(WatchPlugin, PassesAllEventsOnToTheNextPlugin) {
  const std::string alone = shape_with(profiler_file("6"), {});
  EXPECT_NE(alone.find("+Coll<CollApi"), std::string::npos) << alone;
  const std::string watch = RONDO_TEST_WATCH_PLUGIN;
  EXPECT_EQ(shape_with(watch, {{"RONDO_WATCH_NEXT", profiler_file("6")}}), alone);
  EXPECT_EQ(shape_with(watch, {{"RONDO_WATCH_NEXT", profiler_file("5")}}), alone);
}

TEST(WatchPlugin, WatchesTheJobWhereTheNextPluginCannotBeUsed) {
  for (const std::string& next :
       {std::string("/no/such.so"), profiler_file("4"), profiler_file("7")})
    EXPECT_EQ(shape_with(RONDO_TEST_WATCH_PLUGIN, {{"RONDO_WATCH_NEXT", next}}), "") << next;
}

}  // namespace
}  // namespace rondo::test
