// SPDX-License-Identifier: Apache-2.0
// LL flags at the wrap of their 32 bits, on the emulated machine: lines left from one full cycle of
// the flags earlier, which small calls do not overwrite, must not be taken as data of a large call.
#include "tests/simt/connected_fixture.h"
#include "tests/simt/peer_fixture.h"

namespace rondo::simt {
namespace {

constexpr std::uint64_t kHalf = std::uint64_t{1} << 31;  // half a cycle
constexpr std::uint64_t kTurns[] = {kHalf, 2 * kHalf, 3 * kHalf};
constexpr std::uint64_t kSmall = 2, kLarge = 200;  // elements: one line per rank, and many

using Sum = cuda::SumMath<DataType::kInt32>;

// Lines of garbage with one flag.
void lay(std::byte* lines, std::uint64_t count, std::uint64_t flag) {
  auto* const halves = reinterpret_cast<std::uint64_t*>(lines);
  for (std::uint64_t half = 0; half < 2 * count; ++half) halves[half] = flag << 32 | 0xbad;
}

// Anything that a rank takes as data before its peer has begun is old.
void turn_alone(TestMachine& machine) {
  for (int turn = 0; turn < 3000; ++turn) machine.gang().turn();
}

TEST(WrapOfFlags, LeavesNoOldLineToALargeCallByLLPush) {
  for (const std::uint64_t turn : kTurns) {
    constexpr std::uint64_t kSlotLines = cuda::kLLPushAtOnce * cuda::kLLPushLines;
    TestMachine machine({.seed = 7, .devices = kMaxPeers});
    Peers peers(machine, 2, kLarge, kLarge);
    // The large call is the first one that uses slots with new flags.
    const std::uint64_t large = turn + cuda::kLLPushSlots;
    peers.begin_rounds(turn - 2);
    for (int r = 0; r < 2; ++r)
      for (std::uint64_t slot = 0; slot < cuda::kLLPushSlots; ++slot)
        lay(machine.on_host(peers.staging(r)) + slot * kSlotLines * cuda::kLineSize, kSlotLines,
            large);
    for (std::uint64_t round = turn - 1; round < large; ++round) {
      peers.launch_ll_push<LLPushSum>(kSmall, kLarge, 4, 1);
      ASSERT_TRUE(machine.run() && peers.have_sums(kSmall)) << "round " << round;
    }
    peers.launch_ll_push_on<LLPushSum>(0, kLarge, kLarge, 4, 1);
    turn_alone(machine);
    peers.launch_ll_push_on<LLPushSum>(1, kLarge, kLarge, 4, 1);
    EXPECT_TRUE(machine.run() && peers.have_sums(kLarge)) << "rounds from " << turn;
  }
}

TEST(WrapOfFlags, LeavesNoOldLineToALargeCallOverConnections) {
  constexpr int kRanks = 2;
  for (const std::uint64_t turn : kTurns) {
    TestMachine machine({.seed = 7, .devices = kRanks});
    ConnectedRanks ranks(machine, {.ranks = kRanks, .slots = 2});
    std::vector<void*> in, out;
    for (int r = 0; r < kRanks; ++r) {
      auto* const made = machine.allocate<std::int32_t>(kLarge, r);
      for (std::uint64_t i = 0; i < kLarge; ++i) machine.on_host(made)[i] = peer_value(r, i);
      in.push_back(made);
      out.push_back(machine.allocate<std::int32_t>(kLarge, r));
    }
    // A small call fills a slot: two before the wrap and two after it; then the large call.
    ranks.begin_steps(cuda::Protocol::kLL, turn - 2);
    for (const cuda::DeviceEnd& end : ranks.senders(cuda::Protocol::kLL))
      for (std::uint64_t step = turn + 2; step < turn + 4; ++step)
        lay(machine.on_host(end.connection.buffer) + step % 2 * end.connection.slot_bytes,
            cuda::kLLSlotLines, step + 1);
    ConnectedCall call{.protocol = cuda::Protocol::kLL, .per_round = kLarge};
    const auto launch = [&](int first) { ranks.launch_on<Sum>(first, {{call, in, out}}); };
    for (int before = 0; before < 4; ++before) {
      call.count = kSmall;
      for (int r = 0; r < kRanks; ++r) launch(r);
      ASSERT_TRUE(machine.run()) << "steps from " << turn;
    }
    EXPECT_EQ(ranks.senders(cuda::Protocol::kLL)[0].step, turn + 2);
    call.count = kLarge;
    launch(0);
    turn_alone(machine);
    launch(1);
    ASSERT_TRUE(machine.run()) << "steps from " << turn;
    for (int r = 0; r < kRanks; ++r)
      for (std::uint64_t i = 0; i < kLarge; ++i)
        ASSERT_EQ(machine.on_host(static_cast<std::int32_t*>(out[r]))[i],
                  peer_value(0, i) + peer_value(1, i))
            << "steps from " << turn << ", rank " << r << ", element " << i;
  }
}

}  // namespace
}  // namespace rondo::simt
