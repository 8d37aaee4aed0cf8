// SPDX-License-Identifier: Apache-2.0
// The kernels over connections on the emulated machine: rings and trees, Simple, LL and LL128, with
// few slots and many chunks, in seed mode and in weak memory.
#include <string>

#include "tests/simt/connected_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::ConnectedArgs;
using cuda::CopyMath;
using cuda::Protocol;
using cuda::SumMath;
using Sum = SumMath<DataType::kInt32>;

// Element i of rank r's input, and its sum over all ranks.
std::int32_t value_of(int rank, std::uint64_t i) {
  return static_cast<std::int32_t>(i * 7 + static_cast<std::uint64_t>(rank) * 1000);
}
std::int32_t sum_of(int ranks, std::uint64_t i) {
  std::int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value_of(r, i);
  return sum;
}

// Runs `calls` all-reduces in a row, each on the result of the previous one; returns true if the
// last result is right.
bool all_reduce(const MachineOptions& options, const ConnectedShape& shape,
                const ConnectedCall& call, int calls, std::size_t shift = 0) {
  TestMachine machine(options);
  ConnectedRanks ranks(machine, shape);
  std::vector<void*> buffers;
  std::vector<std::int32_t*> on_host;
  for (int r = 0; r < shape.ranks; ++r) {
    auto* const made = machine.allocate<std::int32_t>(call.count + shift, ranks.device_of(r));
    buffers.push_back(made + shift);
    on_host.push_back(machine.on_host(made) + shift);
    for (std::uint64_t i = 0; i < call.count; ++i) on_host[r][i] = value_of(r, i);
  }
  std::uint32_t factor = 1;
  for (int c = 0; c < calls; ++c) {
    ranks.launch<Sum>(call, buffers, buffers);
    if (!machine.run()) {
      for (int r = 0; r < shape.ranks; ++r) {
        const cuda::Control& control = *machine.on_host(ranks.controls + r);
        ADD_FAILURE() << "rank " << r << " waits for " << control.peer << ", step " << control.step
                      << (control.wants_room ? " (room)" : " (data)");
      }
      return false;
    }
    if (c > 0) factor *= static_cast<std::uint32_t>(shape.ranks);
  }
  // The control words that hosts read show the progress of every rank.
  for (int r = 0; r < shape.ranks; ++r) {
    const cuda::Control& control = *machine.on_host(ranks.controls + r);
    const auto newest = cuda::newest_launch(control.newest);
    EXPECT_TRUE(newest) << "rank " << r;
    if (!newest) return false;
    EXPECT_EQ(newest->call.count, call.count) << "rank " << r;
    EXPECT_EQ(newest->number, static_cast<std::uint64_t>(calls)) << "rank " << r;
    for (int c = 0; c < shape.channels; ++c) {
      EXPECT_EQ(control.progress[c].begun, static_cast<std::uint64_t>(calls)) << "rank " << r;
      EXPECT_EQ(control.progress[c].done, static_cast<std::uint64_t>(calls)) << "rank " << r;
    }
  }
  for (int r = 0; r < shape.ranks; ++r)
    for (std::uint64_t i = 0; i < call.count; ++i)
      if (static_cast<std::uint32_t>(on_host[r][i]) !=
          factor * static_cast<std::uint32_t>(sum_of(shape.ranks, i)))
        return false;
  return true;
}

struct Way {
  Algorithm algorithm;
  Protocol protocol;
  int min_slots() const {
    return find_row(algorithm, Collective::kAllReduce, Where::kGpu)->min_slots;
  }
};
constexpr Way kWays[] = {
    {Algorithm::kRing, Protocol::kSimple}, {Algorithm::kRing, Protocol::kLL},
    {Algorithm::kTree, Protocol::kSimple}, {Algorithm::kTree, Protocol::kLL},
    {Algorithm::kRing, Protocol::kLL128},  {Algorithm::kTree, Protocol::kLL128}};

TEST(ConnectedKernels, AllReduceForEveryNumberOfRanksAndSlots) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const Way& way : kWays) {
      for (const int n : {2, 3, 4, 5, 8}) {
        ConnectedShape shape;
        shape.ranks = n;
        shape.channels = 1 + static_cast<int>(random.below(2));
        shape.slots = way.min_slots() + static_cast<int>(random.below(2));
        shape.one_device = random.one_in(2);
        ConnectedCall call{.algorithm = way.algorithm, .protocol = way.protocol};
        call.count = 1 + random.below(random.one_in(3) ? 3000 : 100);
        // For lines with flags: one or several rows of all workers.
        if (way.protocol != Protocol::kSimple)
          call.per_round = (random.one_in(2) ? 64 : 1024) * static_cast<unsigned>(n);
        const MachineOptions options{
            .seed = seed, .weak = random.one_in(2), .whole_lines = true, .devices = 8};
        EXPECT_TRUE(all_reduce(options, shape, call, 2, random.below(2)))
            << n << " ranks, " << shape.slots << " slots, " << call.count << " elements, way "
            << (&way - kWays);
        if (testing::Test::HasFailure()) return;
      }
    }
  });
}

// More than four times as many chunks as slots, so that every slot is reused several times.
TEST(ConnectedKernels, SlotsAreUsedManyTimes) {
  for (const Way& way : kWays) {
    ConnectedShape shape{.ranks = 3, .slots = way.min_slots()};
    ConnectedCall call{.algorithm = way.algorithm, .protocol = way.protocol, .count = 64 * 3 * 9};
    if (way.protocol != Protocol::kSimple) call.per_round = 64 * 3;
    for (const bool weak : {false, true})
      EXPECT_TRUE(
          all_reduce({.seed = 5, .weak = weak, .whole_lines = true, .devices = 8}, shape, call, 1));
  }
}

// A chunk that fills several slots, up to half of all. A job of lines may be less than a slot.
TEST(ConnectedKernels, ChunksOfSeveralSlots) {
  for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128})
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      for (const int n : {2, 3, 5})
        for (const unsigned slices : {2u, 3u}) {
          ConnectedShape shape{.ranks = n, .slots = static_cast<int>(2 * slices)};
          shape.one_device = seed % 2 == 0;
          ConnectedCall call{.protocol = protocol,
                             .count = 64u * static_cast<unsigned>(n) * 9 + 17};
          call.slices = slices;
          if (protocol != Protocol::kSimple) call.slice = 64;
          const MachineOptions options{
              .seed = seed, .weak = seed > 2, .whole_lines = true, .devices = 8};
          EXPECT_TRUE(all_reduce(options, shape, call, 2))
              << n << " ranks, " << slices << " slices";
        }
}

// No two kilobytes are equal.
std::uint8_t byte_of(int rank, std::uint64_t i) {
  return static_cast<std::uint8_t>(static_cast<std::uint64_t>(value_of(rank, i)) + (i >> 10) * 13);
}

// Copies bytes from every rank to every rank, or from one rank to all. shift: of the inputs of odd
// ranks.
bool copies(const MachineOptions& options, const ConnectedShape& shape, const ConnectedCall& call,
            int shift = 1) {
  TestMachine machine(options);
  ConnectedRanks ranks(machine, shape);
  const bool gathers = call.collective == Collective::kAllGather;
  const std::uint64_t all = gathers ? call.count * static_cast<unsigned>(shape.ranks) : call.count;
  std::vector<void*> in, out;
  std::vector<std::uint8_t*> results;
  for (int r = 0; r < shape.ranks; ++r) {
    auto* const input = machine.allocate<std::uint8_t>(call.count + 1, ranks.device_of(r));
    auto* const output = machine.allocate<std::uint8_t>(all, ranks.device_of(r));
    for (std::uint64_t i = 0; i < call.count; ++i)
      machine.on_host(input)[i + r % 2 * shift] = byte_of(r, i);
    in.push_back(input + r % 2 * shift);
    out.push_back(output);
    results.push_back(machine.on_host(output));
  }
  ranks.launch<CopyMath>(call, in, out);
  if (!machine.run()) return false;
  for (int r = 0; r < shape.ranks; ++r)
    for (std::uint64_t i = 0; i < all; ++i) {
      const int from = gathers ? static_cast<int>(i / call.count) : call.root;
      if (results[r][i] != byte_of(from, i % call.count)) return false;
    }
  return true;
}

TEST(ConnectedKernels, CopyBytesOfAnyNumberAndPlace) {
  for_each_round(6, [](std::uint64_t seed) {
    Random random(seed);
    for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
      for (const Collective which : {Collective::kAllGather, Collective::kBroadcast}) {
        ConnectedShape shape{.ranks = 2 + static_cast<int>(random.below(4)), .channels = 2};
        ConnectedCall call{
            .collective = which, .protocol = protocol, .count = 1 + random.below(3000)};
        call.root = static_cast<int>(random.below(static_cast<unsigned>(shape.ranks)));
        const MachineOptions options{
            .seed = seed, .weak = random.one_in(2), .whole_lines = true, .devices = 8};
        EXPECT_TRUE(copies(options, shape, call))
            << shape.ranks << " ranks, " << call.count << " bytes";
      }
    }
  });
}

TEST(ConnectedKernels, BroadcastAlongTreesFromEveryRoot) {
  for (const int n : {2, 3, 5, 8})
    for (int root = 0; root < n; ++root) {
      const ConnectedShape shape{
          .ranks = n,
          .slots = find_row(Algorithm::kTree, Collective::kBroadcast, Where::kGpu)->min_slots};
      const ConnectedCall call{.collective = Collective::kBroadcast,
                               .algorithm = Algorithm::kTree,
                               .protocol = root % 2 == 0 ? Protocol::kLL : Protocol::kSimple,
                               .count = 900,
                               .per_round = 256,
                               .root = root};
      EXPECT_TRUE(copies({.seed = 3, .weak = root % 3 == 0, .devices = 8}, shape, call))
          << n << " ranks, root " << root;
    }
}

TEST(ConnectedKernels, AreSoundForEverySeed) {
  const ConnectedCall call{.count = 64 * 2 * 5};
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 40; ++seed)
      ASSERT_TRUE(
          all_reduce({.seed = seed, .weak = weak, .devices = 8}, {.ranks = 2, .slots = 2}, call, 1))
          << "seed " << seed << ", weak " << weak;
}

// Slots of lines are reused at once, in weak memory. Flags of LL show that a line was read, so its
// credits pass no fence.
TEST(ConnectedKernels, CreditsOfLLNeedNoFence) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const ConnectedCall call{.algorithm = algorithm,
                               .protocol = Protocol::kLL,
                               .count = 64 * 2 * 6 + 5,
                               .per_round = 64 * 2};
      ConnectedShape shape{.ranks = 2 + static_cast<int>(seed % 2)};
      shape.slots = find_row(algorithm, Collective::kAllReduce, Where::kGpu)->min_slots;
      ASSERT_TRUE(all_reduce({.seed = seed, .weak = true, .devices = 8}, shape, call, 2))
          << "seed " << seed;
    }
}

// LL128 where lines of 128 bytes may tear, and where they do not. Slots are reused at once, and
// credits pass no fence.
int failures_of_ll128(bool weak, bool whole_lines) {
  const ConnectedCall call{.protocol = Protocol::kLL128, .count = 64 * 2 * 5, .per_round = 64 * 2};
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    failed += all_reduce({.seed = seed, .weak = weak, .whole_lines = whole_lines, .devices = 8},
                         {.ranks = 2, .slots = 2}, call, 1)
                  ? 0
                  : 1;
  return failed;
}
TEST(ConnectedKernels, OverLL128NeedLinesThatStayWhole) {
  EXPECT_EQ(failures_of_ll128(false, true), 0);
  EXPECT_EQ(failures_of_ll128(true, true), 0);
  EXPECT_GT(failures_of_ll128(true, false), 30);
}

// The last rank of a chain only receives: over LL, its jobs wait only for room in the queue.
TEST(ConnectedKernels, DoNotOverrunTheirJobs) {
  const ConnectedCall call{.collective = Collective::kBroadcast,
                           .protocol = Protocol::kLL,
                           .count = 64 * 20,
                           .per_round = 64,
                           .root = 0};
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_TRUE(copies({.seed = seed, .devices = 8}, {.ranks = 2}, call)) << "seed " << seed;
}

TEST(ConnectedKernels, EndSoonAfterTheHostAborts) {
  TestMachine machine({.seed = 3, .devices = 8});
  const ConnectedShape shape{.ranks = 3};
  ConnectedRanks ranks(machine, shape);
  std::vector<void*> buffers;
  for (int r = 0; r < 3; ++r) buffers.push_back(machine.allocate<std::int32_t>(5000, r));
  // Rank 2 never arrives: its device's kernel is aborted before it begins to wait.
  for (int r = 0; r < 3; ++r) machine.on_host(ranks.controls)[r].abort = r == 2 ? 1 : 0;
  for (const Way& way : kWays) {
    ranks.launch<Sum>({.algorithm = way.algorithm, .protocol = way.protocol, .count = 5000},
                      buffers, buffers);
    for (int turn = 0; turn < 20000; ++turn) machine.gang().turn();
    for (int r = 0; r < 2; ++r) machine.on_host(ranks.controls)[r].abort = 1;
    EXPECT_TRUE(machine.run());
    for (int r = 0; r < 2; ++r) machine.on_host(ranks.controls)[r].abort = 0;
  }
}

}  // namespace
}  // namespace rondo::simt
