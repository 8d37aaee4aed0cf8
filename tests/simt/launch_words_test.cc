// SPDX-License-Identifier: Apache-2.0
// The words by which a kernel reports its launch to the host (kernels/cuda/launch_words.h), in weak
// memory: a host that reads at the same time never takes words of two launches as one.
#include "kernels/cuda/launch_words.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

using cuda::Control;

TEST(LaunchWords, AreOfOneLaunchWheneverTheHostReads) {
  constexpr std::uint64_t kLaunches = 200;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    TestMachine machine({.seed = seed, .weak = true});
    auto* const control = machine.allocate<Control>(1);
    auto* const launches = machine.allocate<std::uint64_t>(2) + 1;
    // Launch n is a call of n elements; digests cover the calls in order.
    std::vector<std::uint64_t> digests(1, 0);
    for (std::uint64_t n = 1; n <= kLaunches; ++n) {
      const CallRecord call{.count = n};
      digests.push_back(
          cuda::digest_with(cuda::digest_with(digests.back(), cuda::record_word(call, 0)),
                            cuda::record_word(call, 1)));
    }
    machine.launch("tells", {.threads = 1}, [=] {
      for (std::uint64_t n = 1; n <= kLaunches; ++n) {
        cuda::report_begun(control, 0, {.count = n}, cuda::load_launches(launches, 0), launches);
        device::store(launches, n);
      }
    });
    const Control& words = *machine.on_host(control);
    std::uint64_t newest = 0, torn = 0;
    while (newest < kLaunches) {
      machine.gang().turn();
      const auto seen = cuda::newest_launch(words.newest);
      for (const auto& one : words.newest)
        torn += one.number != 0 && one.call[0] != one.number ? 1 : 0;
      if (!seen) continue;
      ASSERT_GE(seen->number + 1, newest) << "seed " << seed;  // one may be half overwritten
      newest = std::max(newest, seen->number);
      ASSERT_EQ(seen->call.count, seen->number) << "seed " << seed;
      ASSERT_EQ(seen->digest, digests[seen->number]) << "seed " << seed;
    }
    EXPECT_GT(torn, 0u) << "no record was seen half written";
    EXPECT_TRUE(machine.run());
  }
}

}  // namespace
}  // namespace rondo::simt
