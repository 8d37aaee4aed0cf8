// SPDX-License-Identifier: Apache-2.0
// Calls through staging that devices share, on the emulated machine: kernels copy inputs in and
// outputs out themselves. Every collective, lists in one launch beside one launch per call, in seed
// mode and in weak memory.
#include "kernels/cuda/staged_copy.h"

#include "tests/simt/peer_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

constexpr unsigned kMaxCtas = 3;
constexpr std::uint64_t kWidth = sizeof(std::int32_t);

struct StagedTestCall {
  Collective which;
  std::uint64_t count;
  int root;
  unsigned ctas, threads;

  bool is(std::initializer_list<Collective> some) const {
    return std::find(some.begin(), some.end(), which) != some.end();
  }
  bool reduces() const {
    return is({Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter});
  }
  int sent(int ranks) const {
    return is({Collective::kReduceScatter, Collective::kScatter, Collective::kAllToAll}) ? ranks
                                                                                         : 1;
  }
  int received(int ranks) const {
    return is({Collective::kAllGather, Collective::kGather, Collective::kAllToAll}) ? ranks : 1;
  }
  bool sends(int rank) const {
    return rank == root || !is({Collective::kBroadcast, Collective::kScatter});
  }
  bool receives(int rank) const {
    return rank == root || !is({Collective::kReduce, Collective::kGather});
  }
  std::uint64_t part() const { return ((count + ctas - 1) / ctas + 3) / 4 * 4; }

  // What `rank` must have received.
  std::int32_t expected(int ranks, int rank, std::uint64_t i) const {
    const std::uint64_t block = i / count, own = static_cast<unsigned>(rank) * count;
    const int from = static_cast<int>(block);
    std::int32_t sum = 0;
    switch (which) {
      case Collective::kBroadcast:
        return peer_value(root, i);
      case Collective::kScatter:
        return peer_value(root, own + i);
      case Collective::kAllGather:
      case Collective::kGather:
        return peer_value(from, i % count);
      case Collective::kAllToAll:
        return peer_value(from, own + i % count);
      default:
        for (int s = 0; s < ranks; ++s)
          sum += peer_value(s, which == Collective::kReduceScatter ? own + i : i);
        return sum;
    }
  }
};

class StagedJob {
 public:
  // narrow: slices suffice only for the first call.
  StagedJob(MachineOptions options, int ranks, std::vector<StagedTestCall> calls, bool narrow)
      : machine_(with_faults(options, narrow)),
        ranks_(ranks),
        calls_(std::move(calls)),
        peers_(machine_, ranks, 1, 1, narrow ? 50'000'000 : 0) {
    for (const StagedTestCall& call : calls_)
      slice_ = std::max(slice_, call.part() * static_cast<unsigned>(ranks));
    const std::uint64_t staging = slice_ * kMaxCtas;
    if (narrow) slice_ = calls_[0].part();
    for (int r = 0; r < ranks; ++r) {
      input_.push_back(machine_.allocate<std::int32_t>(staging, device_of_peer(r)));
      output_.push_back(machine_.allocate<std::int32_t>(staging, device_of_peer(r)));
      launches_.push_back(
          machine_.allocate<std::uint64_t>(cuda::kBarrierCtas + 1, device_of_peer(r)) + 1);
      for (const StagedTestCall& call : calls_) {
        const auto sent = call.count * static_cast<unsigned>(call.sent(ranks));
        send_.push_back(machine_.allocate<std::int32_t>(sent, device_of_peer(r)));
        for (std::uint64_t i = 0; i < sent; ++i)
          machine_.on_host(send_.back())[i] = peer_value(r, i);
        receive_.push_back(machine_.allocate<std::int32_t>(
            call.count * static_cast<unsigned>(call.received(ranks)), device_of_peer(r)));
      }
    }
    for (int r = 0; r < ranks; ++r) peers_.list_staging(r, input_[r], output_[r]);
  }

  // Ranks whose bit is set launch all calls at once; the others use one launch per call.
  bool run(std::uint64_t fuses) {
    for (int r = 0; r < ranks_; ++r) {
      std::shared_ptr<Grid> before;
      const std::size_t each = (fuses >> r & 1) != 0 ? calls_.size() : 1;
      for (std::size_t k = 0; k < calls_.size(); k += each)
        before = calls_[k].reduces() ? launch_reductions(r, k, k + each, before)
                                     : launch_copies(r, k, k + each, before);
    }
    return machine_.run() && is_right();
  }

 private:
  static MachineOptions with_faults(MachineOptions options, bool faulty) {
    options.faulty = faulty;
    return options;
  }
  std::size_t place_of(int rank, std::size_t call) const {
    return static_cast<unsigned>(rank) * calls_.size() + call;
  }
  cuda::DeviceBarrier barrier_of(int rank) const {
    cuda::DeviceBarrier barrier = peers_.barrier_of(rank);
    barrier.launches = launches_[rank];
    return barrier;
  }
  cuda::ListedCall listed(const StagedTestCall& call) const {
    CallRecord record{};
    record.collective = call.which;
    record.count = call.count;
    record.root = call.root;
    return {record, static_cast<std::uint16_t>(call.ctas), static_cast<std::uint16_t>(call.threads),
            0};
  }
  cuda::StagedCall staged(int rank, std::size_t k, std::uint64_t unit) const {
    const StagedTestCall& call = calls_[k];
    return {call.sends(rank) ? send_[place_of(rank, k)] : nullptr,
            call.receives(rank) ? receive_[place_of(rank, k)] : nullptr, call.part() * unit};
  }

  std::shared_ptr<Grid> launch_reductions(int rank, std::size_t first, std::size_t end,
                                          const std::shared_ptr<Grid>& before) {
    const StagedTestCall& kind = calls_[first];
    cuda::ReduceArgs args{};
    args.sources = args.ranks = ranks_;
    args.targets = kind.which == Collective::kReduce ? 1 : ranks_;
    args.segments = kind.sent(ranks_);
    args.scattered = kind.which == Collective::kReduceScatter;
    args.slice = slice_;
    args.barrier = barrier_of(rank);
    for (std::size_t k = first; k < end; ++k) {
      const int at = args.calls++;
      for (int r = 0; r < ranks_; ++r) {
        args.input[at * ranks_ + r] = input_[r];
        if (args.targets > 1) args.output[at * ranks_ + r] = output_[r];
      }
      if (args.targets == 1) args.output[at] = output_[calls_[k].root];
      args.count[at] = calls_[k].count;
      args.listed[at] = listed(calls_[k]);
      args.staged[at] = staged(rank, k, 1);
      args.own_step[at] = calls_[k].count;
    }
    return launch<BarrierSum>(args, rank, before);
  }
  std::shared_ptr<Grid> launch_copies(int rank, std::size_t first, std::size_t end,
                                      const std::shared_ptr<Grid>& before) {
    cuda::StagedCopyArgs args{};
    args.slice = slice_ * kWidth;
    args.barrier = barrier_of(rank);
    for (int r = 0; r < ranks_ && ranks_ <= cuda::kArgumentDevices; ++r) {
      args.input[r] = reinterpret_cast<std::byte*>(input_[r]);
      args.output[r] = reinterpret_cast<std::byte*>(output_[r]);
    }
    for (std::size_t k = first; k < end; ++k) {
      const auto at = args.calls++;
      args.bytes[at] = calls_[k].count * kWidth;
      args.listed[at] = listed(calls_[k]);
      args.staged[at] = staged(rank, k, kWidth);
    }
    return launch<cuda::StagedCopy>(args, rank, before);
  }
  template <class Kernel>
  std::shared_ptr<Grid> launch(const typename Kernel::Args& args, int rank,
                               const std::shared_ptr<Grid>& before) {
    const MachineShape shape{.ctas = kMaxCtas,
                             .threads = peers_.barrier_threads(),
                             .shared_bytes = cuda::kBarrierShared,
                             .device = device_of_peer(rank),
                             .cooperative = true};
    return machine_.launch(
        "staged", shape, [args] { Kernel::run(args); }, before);
  }

  bool is_right() const {
    for (int r = 0; r < ranks_; ++r)
      for (std::size_t k = 0; k < calls_.size(); ++k) {
        const StagedTestCall& call = calls_[k];
        if (!call.receives(r)) continue;
        const std::int32_t* const got = machine_.on_host(receive_[place_of(r, k)]);
        for (std::uint64_t i = 0; i < call.count * static_cast<unsigned>(call.received(ranks_));
             ++i)
          if (got[i] != call.expected(ranks_, r, i)) return false;
      }
    return true;
  }

  TestMachine mutable machine_;
  const int ranks_;
  const std::vector<StagedTestCall> calls_;
  Peers peers_;
  std::uint64_t slice_ = 0;  // elements
  std::vector<std::int32_t*> input_, output_, send_, receive_;
  std::vector<std::uint64_t*> launches_;
};

constexpr Collective kCopies[] = {Collective::kBroadcast, Collective::kAllGather,
                                  Collective::kGather, Collective::kScatter, Collective::kAllToAll};
constexpr Collective kReductions[] = {Collective::kAllReduce, Collective::kReduce,
                                      Collective::kReduceScatter};

// Reductions of one kind, or any copies.
std::vector<StagedTestCall> some_calls(Random& random, int ranks, std::uint64_t maximum) {
  const bool reduces = random.one_in(2);
  const Collective kind = kReductions[random.below(std::size(kReductions))];
  std::vector<StagedTestCall> calls(1 + random.below(5));
  for (StagedTestCall& call : calls) {
    call.which = reduces ? kind : kCopies[random.below(std::size(kCopies))];
    call.count = 1 + random.below(maximum);
    call.root = static_cast<int>(random.below(static_cast<unsigned>(ranks)));
    call.ctas = 1 + static_cast<unsigned>(random.below(kMaxCtas));
    call.threads = random.one_in(2) ? 32 : 64;
  }
  return calls;
}

TEST(StagedKernels, DoEveryCollectiveInLists) {
  for_each_round(10, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      const bool weak = random.one_in(2);
      const std::uint64_t fuses = random.one_in(2) ? ~std::uint64_t{0} : random.below(1u << n);
      const auto calls = some_calls(random, n, random.one_in(3) ? 300 : 40);
      StagedJob job({.seed = seed, .weak = weak, .devices = kMaxPeers}, n, calls, false);
      EXPECT_TRUE(job.run(fuses)) << n << " devices, " << calls.size() << " calls of "
                                  << name(calls[0].which) << ", " << fuses << " fuse";
    }
  });
}

// Addresses are in a table, and a barrier takes more than a warp.
TEST(StagedKernels, DoEveryCollectiveOfMoreDevicesThanArgumentsHold) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {19, 36, 66}) {
      auto calls = some_calls(random, n, 40);
      calls.resize(std::min<std::size_t>(calls.size(), cuda::kMaxSharingDevices / n));
      StagedJob job({.seed = seed, .devices = kMaxPeers}, n, calls, false);
      EXPECT_TRUE(job.run(random.one_in(2) ? ~std::uint64_t{0} : 5))
          << n << " devices, " << calls.size() << " calls of " << name(calls[0].which);
    }
  });
}

// Three calls in a list, 40 seeds; returns how many seeds fail.
int failures(Collective which, bool weak, bool narrow = false) {
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    StagedJob job({.seed = seed, .weak = weak, .devices = kMaxPeers}, 3,
                  {{which, 12, 0, 3, 64}, {which, 40, 0, 1, 64}, {which, 120, 0, 3, 64}}, narrow);
    failed += job.run(7) ? 0 : 1;
  }
  return failed;
}

TEST(StagedKernels, ReduceSoundlyForEverySeed) {
  for (const bool weak : {false, true}) EXPECT_EQ(failures(Collective::kAllReduce, weak), 0);
}
TEST(StagedKernels, CopySoundlyForEverySeed) {
  for (const bool weak : {false, true}) EXPECT_EQ(failures(Collective::kAllGather, weak), 0);
}
TEST(StagedKernels, WhoseSlicesOverlapAreCaught) {
  for (const Collective which : {Collective::kAllReduce, Collective::kAllGather})
    EXPECT_GT(failures(which, false, true), 4);
}

}  // namespace
}  // namespace rondo::simt
