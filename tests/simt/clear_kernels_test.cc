// SPDX-License-Identifier: Apache-2.0
// The kernel that clears lines, on the emulated machine: old lines whose flags are those of the
// next call pass for none, a device that is ahead writes no line that a late one clears, and memory
// that is clear is left alone.
#include "tests/simt/peer_fixture.h"

namespace rondo::simt {
namespace {

constexpr std::uint64_t kElements = 200;
constexpr int kRanks = 3;

// Gives every line of CTA 0 the flag of a round that uses its slot.
void lay_old_lines(std::byte* staging, std::uint64_t round) {
  constexpr std::uint64_t kHalves = 2 * cuda::kLLPushAtOnce * cuda::kLLPushLines;
  auto* half = reinterpret_cast<std::uint64_t*>(staging);
  for (std::uint64_t slot = 0; slot < cuda::kLLPushSlots; ++slot)
    for (std::uint64_t i = 0; i < kHalves; ++i) {
      const std::uint64_t of_slot = round + (round + slot) % cuda::kLLPushSlots;
      *half++ = of_slot << 32 | 0xbad;
    }
}

bool clears(const MachineOptions& options) {
  TestMachine machine(options);
  Peers peers(machine, kRanks, kElements, kElements);
  std::vector<std::uint64_t*> cleared;
  for (int r = 0; r < kRanks; ++r)
    cleared.push_back(machine.allocate<std::uint64_t>(cuda::kClearCtas, r));
  for (std::uint64_t generation = 1; generation <= 2; ++generation) {
    const std::uint64_t rounds = 100 * (generation - 1);
    peers.begin_rounds(rounds);
    for (int r = 0; r < kRanks; ++r) {
      lay_old_lines(machine.on_host(peers.staging(r)), rounds + 1);
      std::fill_n(machine.on_host(peers.output(r)), kElements, 0);
    }
    for (int r = 0; r < kRanks; ++r) {
      peers.launch_ll_push_on<LLPushSum>(r, kElements, kElements, 4, 1, 1, true,
                                         peers.clear_lines(r, generation, cleared[r]));
      for (int turn = 0; turn < 2000; ++turn) machine.gang().turn();
    }
    if (!machine.run() || !peers.have_sums(kElements)) return false;
    (void)peers.clear_lines(0, generation, cleared[0]);  // alone: it meets nobody
    if (!machine.run()) return false;
  }
  return true;
}

TEST(ClearLines, LetsNoOldLinePassForEverySeed) {
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      ASSERT_TRUE(clears({.seed = seed, .weak = weak, .devices = kMaxPeers}))
          << "seed " << seed << ", weak " << weak;
}

}  // namespace
}  // namespace rondo::simt
