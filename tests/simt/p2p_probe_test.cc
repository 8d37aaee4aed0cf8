// SPDX-License-Identifier: Apache-2.0
// The kernel that tries P2P, on the emulated machine: what arrives is found in any order of memory,
// and what does not is missed: a redirected device, and any single word.
#include "kernels/cuda/p2p_probe.h"

#include <vector>

#include "tests/simt/machine_fixture.h"

namespace rondo::simt {
namespace {

using Args = cuda::P2pProbeArgs;

constexpr int kRanks = 3;
constexpr std::uint64_t kLong = 1'000'000'000'000;  // a peer's kernel surely runs within it

class ProbeRanks {
 public:
  explicit ProbeRanks(TestMachine& machine) : machine_(machine) {
    for (int r = 0; r < kRanks; ++r)
      memory_.push_back(machine.allocate<std::byte>(Args::bytes_for(kRanks), r));
    seen_.assign(kRanks, memory_);
  }
  // From now on `rank` finds other memory where it maps that of `peer`.
  void redirect(int rank, int peer) {
    seen_[rank][peer] = machine_.allocate<std::byte>(Args::bytes_for(kRanks), rank);
  }
  // Kernels of all ranks, one CTA for each peer.
  bool run(bool sends, std::uint64_t limit_ns) {
    for (int r = 0; r < kRanks; ++r) {
      Args args{};
      args.sends = sends;
      args.limit_ns = limit_ns;
      unsigned pairs = 0;
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == r) continue;
        args.pair[pairs++] = {memory_[r],
                              seen_[r][peer],
                              mark(r),
                              mark(peer),
                              static_cast<std::uint32_t>(r),
                              static_cast<std::uint32_t>(peer),
                              Args::result_at(kRanks, static_cast<std::uint64_t>(peer))};
      }
      machine_.launch("probe", {.ctas = pairs, .threads = 32, .device = r},
                      [args] { cuda::P2pProbe::run(args); });
    }
    return machine_.run();
  }
  std::uint64_t result(int rank, int peer) {
    const auto at = Args::result_at(kRanks, static_cast<std::uint64_t>(peer));
    return *reinterpret_cast<std::uint64_t*>(machine_.on_host(memory_[rank]) + at);
  }
  bool all_are(std::uint64_t wanted) {
    bool are = true;
    for (int r = 0; r < kRanks; ++r)
      for (int peer = 0; peer < kRanks; ++peer) are &= peer == r || result(r, peer) == wanted;
    return are;
  }
  // A byte of what `rank` has written into the memory of `peer`.
  std::byte& byte_of(int rank, int peer, std::uint64_t at) {
    return machine_.on_host(memory_[peer])[static_cast<unsigned>(rank) * Args::kSlotBytes + at];
  }

 private:
  static std::uint64_t mark(int rank) {
    return 0x1234'5678'0000'0001 + static_cast<unsigned>(rank);
  }

  TestMachine& machine_;
  std::vector<std::byte*> memory_;
  std::vector<std::vector<std::byte*>> seen_;  // [rank][peer]
};

TEST(P2pProbe, FindsWhatArrivesForEverySeed) {
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      TestMachine machine({.seed = seed, .weak = weak, .devices = kRanks});
      ProbeRanks ranks(machine);
      ASSERT_TRUE(ranks.run(true, kLong));
      EXPECT_TRUE(ranks.all_are(Args::kWell)) << "seed " << seed << ", weak " << weak;
      ASSERT_TRUE(ranks.run(false, 0));
      EXPECT_TRUE(ranks.all_are(Args::kWell)) << "seed " << seed << ", weak " << weak;
    }
}

TEST(P2pProbe, EndsWithoutAPeer) {
  TestMachine machine({.devices = kRanks});
  ProbeRanks ranks(machine);
  ASSERT_TRUE(ranks.run(false, 0));
  EXPECT_TRUE(ranks.all_are(Args::kNotYet));
}

TEST(P2pProbe, MissesWhatEndsElsewhere) {
  TestMachine machine({.devices = kRanks});
  ProbeRanks ranks(machine);
  ranks.redirect(1, 0);
  ASSERT_TRUE(ranks.run(true, 1'000'000));
  ASSERT_TRUE(ranks.run(false, 0));
  EXPECT_EQ(ranks.result(0, 1), Args::kNotYet) << "what rank 1 has written is not there";
  EXPECT_EQ(ranks.result(1, 0), Args::kWrong) << "what rank 1 reads is not rank 0's";
  EXPECT_EQ(ranks.result(2, 0), Args::kWell);
  EXPECT_EQ(ranks.result(2, 1), Args::kWell);
}

// As if the flag had come, and one of the stores before it had not.
TEST(P2pProbe, MissesAnyWord) {
  TestMachine machine({.devices = kRanks});
  ProbeRanks ranks(machine);
  ASSERT_TRUE(ranks.run(true, kLong));
  for (std::uint64_t at = 0; at < Args::kDataLines * Args::kLine; at += 4) {
    std::byte& one = ranks.byte_of(2, 0, at);
    one ^= std::byte{1};
    ASSERT_TRUE(ranks.run(false, 0));
    EXPECT_EQ(ranks.result(0, 2), Args::kWrong) << "byte " << at;
    EXPECT_EQ(ranks.result(0, 1), Args::kWell);
    one ^= std::byte{1};
  }
}

}  // namespace
}  // namespace rondo::simt
