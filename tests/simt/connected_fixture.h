// Ranks with connections on a bare machine: what collectives/gpu sets up, without streams and
// without the table of kernels, so that a kernel with planted faults runs in their place.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/cuda/connected.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {

struct ConnectedShape {
  int ranks = 2, channels = 1, slots = 2;
  std::uint64_t slot_bytes = 256;
  bool one_device = false;  // else every rank has its own
  unsigned workers = 32;    // threads of a group that move data
  unsigned more_shared = 0;
};

struct ConnectedCall {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  cuda::Protocol protocol = cuda::Protocol::kSimple;
  std::uint64_t count = 0;
  std::uint64_t per_round = 0;  // 0: what slots hold
  unsigned slices = 1;          // slots that a chunk fills
  int root = -1;
};

class ConnectedRanks {
 public:
  ConnectedRanks(TestMachine& machine, const ConnectedShape& shape)
      : machine_(machine), shape_(shape), incoming_(shape.ranks), outgoing_(shape.ranks) {
    controls = machine.allocate<cuda::Control>(static_cast<std::size_t>(shape.ranks));
    for (int r = 0; r < shape.ranks; ++r)
      launches_.push_back(machine.allocate<std::uint64_t>(
                              static_cast<std::size_t>(shape.channels) + 1, device_of(r)) +
                          1);
    for (int r = 0; r < shape.ranks; ++r)
      ends_.push_back(machine.allocate<cuda::DeviceEnd>(
          static_cast<std::size_t>(shape.channels * cuda::kChannelEnds), device_of(r)));
    for (int r = 0; r < shape.ranks; ++r) {
      connect(r, (r + 1) % shape.ranks, 0);
      for (int tree = 0; tree < 2; ++tree) {
        const int parent = double_tree(r, shape.ranks, tree).parent;
        if (parent == kNoRank) continue;
        connect(r, parent, tree);
        connect(parent, r, tree);
      }
    }
  }

  int device_of(int rank) const { return shape_.one_device ? 0 : rank; }

  // One launch a device; inputs and outputs by rank.
  template <class Math, class Faults = cuda::NoFaults>
  void launch(const ConnectedCall& call, const std::vector<void*>& in,
              const std::vector<void*>& out) {
    for (int first = 0; first < shape_.ranks; first += shape_.one_device ? shape_.ranks : 1) {
      const cuda::ConnectedArgs args = arguments<Math>(call, in, out, first);
      MachineShape launch;
      launch.ctas = static_cast<unsigned>(shape_.channels * args.stations);
      launch.threads = args.groups * (shape_.workers + cuda::kServiceWarps * device::kWarp);
      launch.shared_bytes = cuda::kConnectedShared + shape_.more_shared;
      launch.device = device_of(first);
      launch.cooperative = true;
      machine_.launch("connected", launch, [args] { cuda::Connected<Math, Faults>::run(args); });
    }
  }

  cuda::Control* controls;

 private:
  template <class Math>
  cuda::ConnectedArgs arguments(const ConnectedCall& call, const std::vector<void*>& in,
                                const std::vector<void*>& out, int first) const {
    constexpr std::uint64_t kWidth = sizeof(typename Math::T);
    cuda::ConnectedArgs args{};
    args.call = {.count = call.count, .collective = call.collective, .root = call.root};
    args.count = call.count;
    args.grain = kLineBytes / kWidth;
    const std::uint64_t slot =
        cuda::slot_data_of(call.protocol, shape_.slot_bytes) / kWidth / args.grain * args.grain;
    const bool all_reduce = call.collective == Collective::kAllReduce;
    const bool tree = call.algorithm == Algorithm::kTree;
    const int parts = tree ? 2 : all_reduce ? shape_.ranks : 1;
    args.slice = slot;
    args.per_round =
        call.per_round != 0 ? call.per_round : slot * static_cast<unsigned>(parts) * call.slices;
    args.algorithm = call.algorithm;
    args.protocol = call.protocol;
    args.groups = tree && all_reduce ? 2 : 1;
    args.ranks = shape_.ranks;
    args.channels = shape_.channels;
    args.stations = shape_.one_device ? shape_.ranks : 1;
    for (int s = 0; s < args.stations; ++s) {
      const int r = first + s;
      args.station[s] = {in[r], out[r], 0, ends_[r], controls + r, r, 0, launches_[r]};
    }
    return args;
  }

  void connect(int from, int to, int lane) {
    for (const auto& [sender, receiver, used] : made_)
      if (sender == from && receiver == to && used == lane) return;
    made_.push_back({from, to, lane});
    const int out = outgoing_[from]++, in = incoming_[to]++;
    for (int i = 0; i < shape_.channels * cuda::kProtocols; ++i) {
      const auto protocol = static_cast<cuda::Protocol>(i % cuda::kProtocols);
      cuda::DeviceEnd end{};
      Connection& connection = end.connection;
      connection.slot_bytes = cuda::slot_bytes_of(protocol, shape_.slot_bytes);
      connection.slot_count = static_cast<std::uint64_t>(shape_.slots);
      connection.buffer = machine_.allocate<std::byte>(
          connection.slot_bytes * connection.slot_count, device_of(to));
      connection.tail = machine_.allocate<std::uint64_t>(1, device_of(to));
      connection.head = machine_.allocate<std::uint64_t>(1, device_of(from));
      connection.peer = to;
      end.lane = lane;
      *at(from, i, cuda::kOutgoing, out) = end;
      connection.peer = from;
      *at(to, i, cuda::kIncoming, in) = end;
    }
  }
  cuda::DeviceEnd* at(int rank, int channel_and_wire, int direction, int index) const {
    return machine_.on_host(ends_[rank]) +
           (channel_and_wire * cuda::kDirections + direction) * cuda::kEnds + index;
  }

  struct Made {
    int from, to, lane;
  };
  TestMachine& machine_;
  const ConnectedShape shape_;
  std::vector<cuda::DeviceEnd*> ends_;
  std::vector<std::uint64_t*> launches_;
  std::vector<int> incoming_, outgoing_;
  std::vector<Made> made_;
};

}  // namespace rondo::simt
