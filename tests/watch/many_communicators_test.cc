// SPDX-License-Identifier: Apache-2.0
// A process of thousands of communicators: what librondo-watch.so keeps of them has a bound, in
// memory and in descriptors, and goes with them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/watch/plugin_caller.h"

namespace rondo::test {
namespace {

using Plugin = Caller<abi::Descriptor5, 6>;

constexpr int kCommunicators = 2000, kCallsOfOne = 20;

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}
std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

void make_calls(Plugin& plugin) {
  for (int call = 0; call < kCallsOfOne; ++call) {
    void* const coll = plugin.start(Plugin::coll());
    plugin.stop(coll);
    for (int channel = 0; channel < 2; ++channel)
      plugin.stop(plugin.start(Plugin::event_of(abi::kKernelCh, coll)));
  }
}

std::vector<Plugin> make_communicators() {
  std::vector<Plugin> all(kCommunicators);
  std::uint64_t hash = 1;
  for (Plugin& one : all) {
    reinterpret_cast<abi::Init5>(one.table.init)(&one.context, hash++, &one.mask, "x", 1, 2, 1,
                                                 nullptr);
    make_calls(one);
  }
  return all;
}

TEST(WatchPlugin, KeepsLittleOfThousandsOfCommunicators) {
  in_process([] {
    Plugin first;
    first.init();
    make_calls(first);
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.finished == kCallsOfOne; }));
    const double before = resident_mib();
    const std::ptrdiff_t opened_before = descriptors();
    double used = 0, first_used = 0;
    for (int turn = 0; turn < 4; ++turn) {
      std::vector<Plugin> all = make_communicators();
      JobView view;
      EXPECT_TRUE(wait_until([&] {
        view = own_view();
        return view.communicators.size() == kCommunicators + 1;
      })) << view.communicators.size();
      for (const CommunicatorView& one : view.communicators)
        EXPECT_EQ(one.ranks.at(0).call, kCallsOfOne);
      used = resident_mib() - before;
      fmt::print(stderr, "{} communicators: {:.0f} MiB, {} descriptors more\n", kCommunicators,
                 used, descriptors() - opened_before);
      for (Plugin& one : all) one.table.finish(one.context);
      EXPECT_TRUE(wait_until([] { return own_view().communicators.size() == 1; }));
      EXPECT_TRUE(wait_until([&] { return descriptors() <= opened_before + 1; }));
      if (turn == 0) first_used = used;
    }
    EXPECT_LT(used, 1.1 * first_used + 1) << "it grows with communicators that have gone";
    EXPECT_LT(used, 250) << "MiB";
  });
}

}  // namespace
}  // namespace rondo::test
