// SPDX-License-Identifier: Apache-2.0
// The resolve kernel while a rank waits for room in its ring of descriptors.
#include "kernels/cuda/resolve.h"

#include <array>
#include <bit>

#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

using cuda::CallDescriptor;
using cuda::CallSlot;
using cuda::DeviceWords;
using cuda::ResolveArgs;

constexpr int kRanks = 40;  // in two warps

CallRecord sum_of(std::uint64_t count) {
  CallRecord record{};
  record.collective = Collective::kAllReduce;
  record.count = count;
  return record;
}

// The rank that is blamed for another call, plus one; 0: none.
std::uint32_t blamed(std::uint64_t seed, int impatient) {
  TestMachine machine({.seed = seed});
  auto* const slots = machine.allocate<CallSlot>(kRanks);
  auto* const descriptors = machine.allocate<CallDescriptor>(kRanks);
  auto* const words = machine.allocate<DeviceWords>(1);
  auto* const arguments = machine.allocate<cuda::ReduceArgs>(1);
  for (int r = 0; r < kRanks; ++r) {
    machine.on_host(descriptors)[r].sequence = 1;
    machine.on_host(descriptors)[r].record = sum_of(100);
  }
  ResolveArgs args{};
  args.call_slots = slots, args.descriptors = descriptors, args.words = words;
  args.arguments = arguments;
  args.record = sum_of(100);
  args.step = {-1, 0, 100};
  args.depth = 1, args.ranks = kRanks, args.width = 4;
  args.reduces = true, args.last = true;
  machine.launch(
      "resolve",
      {.ctas = 1, .threads = cuda::Resolve::kThreads, .shared_bytes = cuda::kResolveShared},
      [args] { cuda::Resolve::run(args); });
  // The rank's next call overwrites this one's descriptor as soon as the words allow it. A kernel
  // acts as its host, so that the seed chooses when.
  machine.launch("host", {.ctas = 1, .threads = 1}, [own = descriptors + impatient, words] {
    using device::Scope;
    while (device::load_acquire<Scope::kSystem>(&words->consumed) < 1) device::spin();
    const auto next = std::bit_cast<std::array<std::uint64_t, 2>>(sum_of(200));
    auto* const record = reinterpret_cast<std::uint64_t*>(&own->record);
    for (int w = 0; w < 2; ++w) device::store_relaxed<Scope::kSystem>(record + w, next[w]);
  });
  EXPECT_TRUE(machine.run()) << "seed " << seed;
  EXPECT_EQ(machine.on_host(words)->consumed, 1u);
  return machine.on_host(words)->mismatch;
}

TEST(ResolveKernel, NeedsDescriptorsUntilAllAreRead) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed)
    ASSERT_EQ(blamed(seed, kRanks - 1), 0u) << "seed " << seed;
}

}  // namespace
}  // namespace rondo::simt
