// SPDX-License-Identifier: Apache-2.0
// Ranks on devices with peer access, on a bare machine: the state by which their direct kernels and
// LL push synchronise; launched one by one or as lists.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cuda/clear_lines.h"
#include "kernels/cuda/direct.h"
#include "kernels/cuda/ll_push.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {

inline constexpr int kMaxPeers = 8;  // devices; more ranks share them, in kernels of their own
inline int device_of_peer(int rank) { return rank % kMaxPeers; }

inline std::int32_t peer_value(int rank, std::uint64_t i) {
  return static_cast<std::int32_t>(i * 7 + static_cast<std::uint64_t>(rank) * 1000);
}

// One rank per device, each with a buffer and the state by which kernels synchronise.
class Peers {
 public:
  Peers(TestMachine& machine, int ranks, std::uint64_t count, std::uint64_t output_count,
        std::uint64_t limit_ns = 0)
      : machine_(machine), ranks_(ranks) {
    controls_ = machine.allocate<cuda::Control>(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      machine.on_host(controls_)[r].limit_ns = limit_ns;
      input_.push_back(machine.allocate<std::int32_t>(count, device_of_peer(r)));
      output_.push_back(machine.allocate<std::int32_t>(output_count, device_of_peer(r)));
      epochs_.push_back(machine.allocate<std::uint64_t>(cuda::kBarrierCtas, device_of_peer(r)));
      arrivals_.push_back(machine.allocate<std::uint64_t>(
          cuda::kBarrierCtas * cuda::arrivals_of_cta(ranks), device_of_peer(r)));
      launches_.push_back(
          machine.allocate<std::uint64_t>(cuda::kLLPushCtas + 1, device_of_peer(r)) + 1);
      staging_.push_back(
          machine.allocate<std::byte>(cuda::ll_push_staging(ranks), device_of_peer(r)));
      for (std::uint64_t i = 0; i < count; ++i) machine.on_host(input_[r])[i] = peer_value(r, i);
    }
    for (int r = 0; r < ranks; ++r) {
      tables_.push_back(
          machine.allocate<cuda::Peer>(static_cast<std::size_t>(ranks), device_of_peer(r)));
      for (int p = 0; p < ranks; ++p)
        machine.on_host(tables_[r])[p] = {staging_[p], arrivals_[p], nullptr, nullptr};
    }
  }

  // One launch of a direct kernel per device.
  template <class Kernel>
  void launch_barrier(typename Kernel::Args args, unsigned ctas) {
    args.listed[0] = whole_launch(ctas);
    for (int place = 0; place < ranks_; ++place) {
      args.barrier = barrier_of(place);
      launch<Kernel>(args, ctas, place, cuda::kBarrierShared);
    }
  }
  // Launches the calls of args.listed: in one launch on devices whose bit of `fuses` is set, in one
  // launch per call on the others.
  template <class Kernel>
  void launch_listed(const cuda::ReduceArgs& list, std::uint64_t fuses) {
    for (int r = 0; r < ranks_; ++r) {
      cuda::ReduceArgs args = list;
      args.barrier = barrier_of(r);
      args.barrier.launches = launches_[r];
      if ((fuses >> r & 1) != 0) {
        launch<Kernel>(args, kMaxListedCtas, r, cuda::kBarrierShared);
        continue;
      }
      std::shared_ptr<Grid> before;
      args.calls = 1;
      for (int k = 0; k < list.calls; ++k) {
        args.listed[0] = list.listed[k];
        args.count[0] = list.count[k];
        std::copy_n(list.input + k * list.sources, list.sources, args.input);
        std::copy_n(list.output + k * list.targets, list.targets, args.output);
        before = launch<Kernel>(args, args.listed[0].ctas, r, cuda::kBarrierShared, before,
                                args.listed[0].threads);
      }
    }
  }
  static constexpr unsigned kMaxListedCtas = 3;
  static cuda::ListedCall whole_launch(unsigned ctas) {
    return {{}, static_cast<std::uint16_t>(ctas), kThreads, 0};
  }
  // Launches on one device only, with one CTA; peers arrive at barriers as set by report().
  template <class Kernel>
  std::shared_ptr<Grid> launch_alone(int place, cuda::ReduceArgs args,
                                     const std::shared_ptr<Grid>& before = nullptr) {
    args.barrier = barrier_of(place);
    args.barrier.launches = launches_[place];
    return launch<Kernel>(args, 1, place, cuda::kBarrierShared, before);
  }
  // A peer has arrived at the first `barriers` barriers of CTA 0 of the device at `place`.
  void report(int place, int peer, std::uint64_t barriers) {
    machine_.on_host(arrivals_[place])[peer] = barriers;
  }
  // Sets the number of rounds that LL push has completed.
  void begin_rounds(std::uint64_t rounds) {
    for (std::uint64_t* const each : epochs_)
      std::fill_n(machine_.on_host(each), cuda::kBarrierCtas, rounds);
  }
  std::byte* staging(int rank) const { return staging_[rank]; }
  // Staging of shared kernels, in the tables of all ranks.
  void list_staging(int rank, void* input, void* output) {
    for (cuda::Peer* const table : tables_) {
      machine_.on_host(table)[rank].input = static_cast<std::byte*>(input);
      machine_.on_host(table)[rank].output = static_cast<std::byte*>(output);
    }
  }
  // Of a CTA with a thread for each device.
  unsigned barrier_threads() const {
    return std::max(kThreads, (static_cast<unsigned>(ranks_) + 31) / 32 * 32);
  }

  template <class Kernel>
  void launch_ll_push(std::uint64_t count, std::uint64_t per_round, unsigned width, unsigned ctas) {
    for (int r = 0; r < ranks_; ++r) launch_ll_push_on<Kernel>(r, count, per_round, width, ctas);
  }
  // calls: `count` is split into this number of calls, one after the other; in one launch, or one
  // launch each. Odd calls use one CTA fewer.
  template <class Kernel>
  void launch_ll_push_on(int r, std::uint64_t count, std::uint64_t per_round, unsigned width,
                         unsigned ctas, int calls = 1, bool fuses = true,
                         std::shared_ptr<Grid> before = nullptr) {
    const std::uint64_t each = count / static_cast<unsigned>(calls);
    cuda::LLPushArgs args{};
    for (int k = 0; k < calls; ++k) {
      cuda::LLPushArgs::Call& call = args.call[args.calls++];
      const std::uint64_t at = static_cast<unsigned>(k) * each;
      call.count = call.record.count = k + 1 < calls ? each : count - at;
      call.input = input_[r] + at, call.output = output_[r] + at;
      call.channels = static_cast<int>(k % 2 == 1 && ctas > 1 ? ctas - 1 : ctas);
      if (fuses && k + 1 < calls) continue;
      before = launch_list<Kernel>(args, r, per_round, width, fuses ? ctas : call.channels, before);
      args.calls = 0;
    }
  }
  // cleared: ClearLinesArgs::cleared.
  std::shared_ptr<Grid> clear_lines(int r, std::uint64_t generation, std::uint64_t* cleared) {
    cuda::ClearLinesArgs args{};
    args.lines = staging_[r];
    args.bytes = cuda::ll_push_staging(ranks_) / cuda::kLLPushCtas;  // of CTA 0
    args.generation = generation;
    args.cleared = cleared;
    args.barrier = barrier_of(r);
    return launch<cuda::ClearLines>(args, 2, r, cuda::kBarrierShared);
  }
  template <class Kernel>
  std::shared_ptr<Grid> launch_list(cuda::LLPushArgs args, int r, std::uint64_t per_round,
                                    unsigned width, unsigned ctas,
                                    const std::shared_ptr<Grid>& before) {
    args.per_round = per_round;
    args.grain = static_cast<std::uint32_t>(kLineBytes / width);
    args.rank = r, args.ranks = ranks_;
    args.rounds = epochs_[r];
    args.launches = launches_[r];
    if (ranks_ > cuda::kLLPushAtOnce)
      args.peers = tables_[r];
    else
      for (int p = 0; p < ranks_; ++p) args.staging[p] = staging_[p];
    args.control = controls_ + r;
    return launch<Kernel>(args, ctas, r, cuda::kLLPushShared, before);
  }

  cuda::DeviceBarrier barrier_of(int place) const {
    cuda::DeviceBarrier barrier{};
    barrier.devices = ranks_, barrier.place = place;
    barrier.barriers = epochs_[place];
    if (ranks_ > cuda::kArgumentDevices)
      barrier.peers = tables_[place];
    else
      for (int d = 0; d < ranks_; ++d) barrier.arrivals[d] = arrivals_[d];
    barrier.control = controls_ + place;
    return barrier;
  }

  const cuda::Control& control(int rank) const { return machine_.on_host(controls_)[rank]; }
  std::int32_t* input(int rank) const { return input_[rank]; }
  std::int32_t* output(int rank) const { return output_[rank]; }
  // True if all outputs hold the sum of all inputs.
  bool have_sums(std::uint64_t count) const {
    for (int r = 0; r < ranks_; ++r)
      for (std::uint64_t i = 0; i < count; ++i) {
        std::int32_t sum = 0;
        for (int s = 0; s < ranks_; ++s) sum += peer_value(s, i);
        if (machine_.on_host(output_[r])[i] != sum) return false;
      }
    return true;
  }

 private:
  static constexpr unsigned kThreads = 64;
  template <class Kernel>
  std::shared_ptr<Grid> launch(const typename Kernel::Args& args, unsigned ctas, int rank,
                               unsigned shared, const std::shared_ptr<Grid>& before = nullptr,
                               unsigned threads = kThreads) {
    const MachineShape shape{.ctas = ctas,
                             .threads = std::max(threads, ranks_ > 32 ? barrier_threads() : 0),
                             .shared_bytes = shared,
                             .device = device_of_peer(rank),
                             .cooperative = true};
    return machine_.launch(
        "peers", shape, [args] { Kernel::run(args); }, before);
  }

  TestMachine& machine_;
  const int ranks_;
  cuda::Control* controls_;
  std::vector<std::int32_t*> input_, output_;
  std::vector<std::uint64_t*> epochs_, arrivals_, launches_;
  std::vector<std::byte*> staging_;
  std::vector<cuda::Peer*> tables_;
};

using BarrierSum = cuda::DirectReduce<DataType::kInt32, RedOp::kSum>;
using LLPushSum = cuda::LLPush<cuda::SumMath<DataType::kInt32>>;

}  // namespace rondo::simt
