// SPDX-License-Identifier: Apache-2.0
// Ranks, each on its own device, whose staging is bound to one multicast object, on a bare machine:
// kernels on it run alone or as lists, and their results are compared.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/multicast.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {

// Integers, so that sums are exact in any order; they differ in every call.
inline float multicast_value(int rank, std::uint64_t i, int call) {
  return static_cast<float>(i % 97 + 3 * rank + 1000 * call);
}

struct MulticastShape {
  int ranks;
  unsigned ctas;
  std::uint64_t count;
  std::size_t shift = 0;          // elements by which buffers are unaligned
  std::uint64_t per_round = 500;  // elements
  bool in_windows = false;        // all buffers are in memory bound to the object
};
inline constexpr std::uint64_t kMulticastWindow =
    64 << 10;  // bytes of a buffer in bound memory: input, outputs by call

// One rank per device, with staging bound to one object; each call has its own buffers.
class MulticastRanks {
 public:
  MulticastRanks(TestMachine& machine, const MulticastShape& shape, int calls = 1,
                 int bound_by = -1)
      : machine_(machine), shape_(shape) {
    auto object = std::make_shared<MulticastObject>(cuda::kMulticastStaging, shape.ranks);
    controls_ = machine.allocate<cuda::Control>(static_cast<std::size_t>(shape.ranks));
    const std::uint64_t elements = shape.count * static_cast<unsigned>(shape.ranks) + shape.shift;
    for (int r = 0; r < shape.ranks; ++r) {
      for (int c = 0; c < calls && !shape.in_windows; ++c) {
        input_[r].push_back(machine.allocate<float>(elements, r) + shape.shift);
        output_[r].push_back(machine.allocate<float>(elements, r) + shape.shift);
        for (std::uint64_t i = 0; i + shape.shift < elements; ++i)
          machine.on_host(input(r, c))[i] = multicast_value(r, i, c);
      }
      barriers_.push_back(machine.allocate<std::uint64_t>(cuda::kBarrierCtas, r));
      launches_.push_back(machine.allocate<std::uint64_t>(cuda::kBarrierCtas + 1, r) + 1);
      arrivals_.push_back(
          machine.allocate<std::uint64_t>(cuda::kBarrierCtas * cuda::kArgumentDevices, r));
      own_.push_back(machine.allocate<std::byte>(cuda::kMulticastStaging, r,
                                                 shape.in_windows ? ~0u : 1u << r));
      for (int c = 0; c < calls && shape.in_windows; ++c) {
        auto* const floats = reinterpret_cast<float*>(own_[r]);
        input_[r].push_back(floats);
        output_[r].push_back(floats + (c + 1) * kMulticastWindow / sizeof(float));
      }
      object->add(r);
      if (bound_by < 0 || r < bound_by)
        object->bind(r, 0, cuda::kMulticastStaging,
                     *machine.memory().find(reinterpret_cast<std::uint64_t>(own_[r])), 0);
    }
    Allocation* const all =
        machine.memory().map_multicast(machine.memory().reserve(object->bytes()), object);
    all->access = object->added();
    all_ = reinterpret_cast<std::byte*>(all->begin);
  }

  // One launch of the whole list on devices whose bit of `fuses` is set; one launch per call on the
  // others.
  template <class Kernel>
  void launch_lists(std::span<const Collective> calls, std::uint64_t fuses) {
    for (int r = 0; r < shape_.ranks; ++r) {
      std::shared_ptr<Grid> before;
      cuda::MulticastArgs list = args_of(calls[0], r, 0);
      list.calls = 0;
      for (std::size_t c = 0; c < calls.size(); ++c) {
        const cuda::MulticastArgs one = args_of(calls[c], r, static_cast<int>(c));
        list.call[list.calls++] = one.call[0];
        if ((fuses >> r & 1) != 0 && c + 1 < calls.size()) continue;
        const bool alone = list.calls == 1;
        const MachineShape shape{
            .ctas = alone ? static_cast<unsigned>(one.call[0].channels) : shape_.ctas,
            .threads = 64,
            .shared_bytes = cuda::kBarrierShared,
            .device = r,
            .cooperative = true};
        before = machine_.launch(
            "multicast", shape, [list] { Kernel::run(list); }, before);
        list.calls = 0;
      }
    }
  }
  const cuda::Control& control(int rank) const { return machine_.on_host(controls_)[rank]; }

  // One launch per call, on every device.
  void launch(std::span<const Collective> calls) {
    const std::uint64_t filled =
        shape_.in_windows ? shape_.count * static_cast<unsigned>(shape_.ranks) : 0;
    launch_by(calls, [filled](const cuda::MulticastArgs& args) {
      for (std::uint64_t i = device::thread_index(); i < filled; i += device::thread_count())
        device::store(const_cast<float*>(static_cast<const float*>(args.call[0].input)) + i,
                      multicast_value(args.rank, i, static_cast<int>(args.call[0].record.count)));
      device::barrier();
      if (args.call[0].record.collective == Collective::kAllGather)
        return cuda::Multicast<cuda::MulticastCopy>::run(args);
      cuda::Multicast<cuda::MulticastSum<DataType::kFloat32>>::run(args);
    });
  }
  template <class Run>
  void launch_by(std::span<const Collective> calls, const Run& run) {
    struct Calls {
      int count;
      cuda::MulticastArgs args[8];
    };
    for (int r = 0; r < shape_.ranks; ++r) {
      Calls all{static_cast<int>(calls.size()), {}};
      for (std::size_t c = 0; c < calls.size(); ++c)
        all.args[c] = args_of(calls[c], r, static_cast<int>(c));
      const MachineShape shape{.ctas = shape_.ctas,
                               .threads = 64,
                               .shared_bytes = cuda::kBarrierShared,
                               .device = r,
                               .cooperative = true};
      machine_.launch("multicast", shape, [all, run] {
        for (int c = 0; c < all.count; ++c) {
          run(all.args[c]);
          device::barrier();
        }
      });
    }
  }

  float* input(int rank, int call = 0) const {
    return input_[rank][static_cast<std::size_t>(call)];
  }
  std::byte* all() const { return all_; }
  float output(int rank, std::uint64_t i, int call = 0) const {
    return machine_.on_host(output_[rank][static_cast<std::size_t>(call)])[i];
  }
  bool have(std::span<const Collective> calls) const {
    for (std::size_t c = 0; c < calls.size(); ++c)
      if (!has(calls[c], static_cast<int>(c))) return false;
    return true;
  }

 private:
  bool has(Collective collective, int call) const {
    const int n = shape_.ranks;
    const auto sum = [&](std::uint64_t i) {
      float all = 0;
      for (int r = 0; r < n; ++r) all += multicast_value(r, i, call);
      return all;
    };
    for (int r = 0; r < n; ++r)
      for (std::uint64_t i = 0; i < shape_.count; ++i) {
        if (collective == Collective::kAllReduce && output(r, i, call) != sum(i)) return false;
        if (collective == Collective::kReduceScatter &&
            output(r, i, call) != sum(shape_.count * static_cast<unsigned>(r) + i))
          return false;
        for (int s = 0; collective == Collective::kAllGather && s < n; ++s)
          if (output(r, shape_.count * static_cast<unsigned>(s) + i, call) !=
              multicast_value(s, i, call))
            return false;
      }
    return true;
  }
  cuda::MulticastArgs args_of(Collective collective, int rank, int call) const {
    const bool copies = collective == Collective::kAllGather;
    const std::uint64_t units = copies ? sizeof(float) : 1;
    const unsigned blocks =
        collective == Collective::kAllReduce ? 1 : static_cast<unsigned>(shape_.ranks);
    cuda::MulticastArgs args{};
    args.calls = 1;
    cuda::MulticastArgs::Call& one = args.call[0];
    one.count = shape_.count * units;
    one.per_round = std::min(shape_.per_round * units,
                             cuda::multicast_round(blocks, copies ? 1 : sizeof(float)));
    one.grain = static_cast<std::uint32_t>(16 * units);
    one.channels = static_cast<int>(shape_.ctas);
    if (shape_.ctas > 1 && call % 2 == 1) --one.channels;
    args.rank = rank, args.ranks = shape_.ranks;
    one.input = input(rank, call), one.output = output_[rank][static_cast<std::size_t>(call)];
    args.own = own_[rank], args.all = all_;
    args.barrier.devices = shape_.ranks, args.barrier.place = rank;
    args.barrier.barriers = barriers_[rank];
    for (int d = 0; d < shape_.ranks; ++d) args.barrier.arrivals[d] = arrivals_[d];
    args.barrier.control = controls_ + rank;
    args.barrier.launches = launches_[rank];
    one.record.collective = collective;
    one.record.count = static_cast<std::uint64_t>(call);
    if (!shape_.in_windows) return args;
    one.all_input = all_;
    one.all_output = all_ + static_cast<unsigned>(call + 1) * kMulticastWindow;
    for (int r = 0; r < shape_.ranks; ++r)
      one.outputs[r] = output_[r][static_cast<std::size_t>(call)];
    return args;
  }

  TestMachine& machine_;
  const MulticastShape shape_;
  cuda::Control* controls_;
  std::vector<float*> input_[8], output_[8];  // indexed by rank, then by call
  std::vector<std::uint64_t*> barriers_, arrivals_, launches_;
  std::vector<std::byte*> own_;
  std::byte* all_ = nullptr;
};

}  // namespace rondo::simt
