// SPDX-License-Identifier: Apache-2.0
// Ranks with connections on a bare emulated machine: the state that collectives/gpu sets up,
// without streams and without the kernel table.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/cuda/connected.h"
#include "tests/simt/machine_fixture.h"

namespace rondo::simt {

struct ConnectedShape {
  int ranks = 2, channels = 1, slots = 2;
  std::uint64_t slot_bytes = 256;
  bool one_device = false;  // else each rank has its own device
  unsigned workers = 32;    // threads of a group that move data
};

struct ConnectedCall {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  cuda::Protocol protocol = cuda::Protocol::kSimple;
  std::uint64_t count = 0;
  std::uint64_t per_round = 0;  // 0: what the slots hold
  unsigned slices = 1;          // slots per chunk
  std::uint64_t slice = 0;      // elements of a job; 0: what a slot holds
  int channels = 0;             // 0: all channels
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

  // One launch per device; `in` and `out` are indexed by rank.
  template <class Math>
  void launch(const ConnectedCall& call, const std::vector<void*>& in,
              const std::vector<void*>& out) {
    launch<Math>({{call, in, out}});
  }

  struct Listed {
    ConnectedCall call;
    std::vector<void*> in, out;
  };
  // Launches a list of calls. fuses: the ranks (each on its own device) that run it in one launch;
  // the others use one launch per call.
  template <class Math>
  void launch(const std::vector<Listed>& calls, std::uint64_t fuses = ~std::uint64_t{0}) {
    for (int first = 0; first < shape_.ranks; first += shape_.one_device ? shape_.ranks : 1) {
      if ((fuses >> first & 1) != 0) {
        launch_on<Math>(first, calls);
      } else {
        std::shared_ptr<Grid> before;
        for (const Listed& call : calls) before = launch_on<Math>(first, {call}, before);
      }
    }
  }

  // Launches only on the device of rank `first`, after `after` has finished.
  template <class Math>
  std::shared_ptr<Grid> launch_on(int first, const std::vector<Listed>& calls,
                                  const std::shared_ptr<Grid>& after = nullptr) {
    cuda::ConnectedArgs args{};
    args.ranks = shape_.ranks;
    args.stations = static_cast<std::uint8_t>(shape_.one_device ? shape_.ranks : 1);
    args.calls = static_cast<std::uint8_t>(calls.size());
    EXPECT_TRUE(cuda::ConnectedArgs::has_room(args.stations, args.calls));
    for (int s = 0; s < args.stations; ++s)
      args.station(s) = {ends_[first + s], controls + first + s, launches_[first + s], first + s,
                         0};
    for (int k = 0; k < args.calls; ++k) {
      args.call(k) = listed<Math>(calls[k].call);
      args.channels = std::max(args.channels, args.call(k).channels);
      args.groups = calls[k].call.algorithm == Algorithm::kTree &&
                            calls[k].call.collective == Collective::kAllReduce
                        ? 2
                        : 1;
      for (int s = 0; s < args.stations; ++s)
        args.put_buffers(k, s, {calls[k].in[first + s], calls[k].out[first + s], 0}, false);
    }
    MachineShape launch;
    launch.ctas = static_cast<unsigned>(args.channels * args.stations);
    launch.threads = args.groups * (shape_.workers + cuda::kServiceWarps * device::kWarp);
    launch.shared_bytes = cuda::kConnectedShared;
    launch.device = device_of(first);
    launch.cooperative = true;
    const auto body = [args] { cuda::Connected<Math>::run(args); };
    return machine_.launch("connected", launch, body, after);
  }

  // Sets all ends of a protocol to step `steps`.
  void begin_steps(cuda::Protocol protocol, std::uint64_t steps) {
    for_each_end(protocol, [&](cuda::DeviceEnd& end, int) {
      end.step = end.known = steps;
      end.next_slot = static_cast<std::int32_t>(steps % end.connection.slot_count);
      *machine_.on_host(end.connection.head) = *machine_.on_host(end.connection.tail) = steps;
    });
  }
  std::vector<cuda::DeviceEnd> senders(cuda::Protocol protocol) {
    std::vector<cuda::DeviceEnd> found;
    for_each_end(protocol, [&](const cuda::DeviceEnd& end, int direction) {
      if (direction == cuda::kOutgoing) found.push_back(end);
    });
    return found;
  }

  cuda::Control* controls;

 private:
  template <class Each>
  void for_each_end(cuda::Protocol protocol, const Each& each) {
    for (int r = 0; r < shape_.ranks; ++r)
      for (int c = 0; c < shape_.channels; ++c)
        for (int direction = 0; direction < cuda::kDirections; ++direction)
          for (int i = 0; i < cuda::kEnds; ++i) {
            cuda::DeviceEnd& end =
                *at(r, c * cuda::kProtocols + static_cast<int>(protocol), direction, i);
            if (end.connection.slot_count > 0) each(end, direction);
          }
  }

  template <class Math>
  cuda::ConnectedArgs::Call listed(const ConnectedCall& call) const {
    constexpr std::uint64_t kWidth = sizeof(typename Math::T);
    cuda::ConnectedArgs::Call made{};
    made.record = {.count = call.count, .collective = call.collective, .root = call.root};
    made.count = call.count;
    constexpr std::uint64_t kGrain = kLineBytes / kWidth;
    const std::uint64_t slot =
        call.slice != 0
            ? call.slice
            : cuda::slot_data_of(call.protocol, shape_.slot_bytes) / kWidth / kGrain * kGrain;
    const bool all_reduce = call.collective == Collective::kAllReduce;
    const bool tree = call.algorithm == Algorithm::kTree;
    const int parts = tree ? 2 : all_reduce ? shape_.ranks : 1;
    made.slice = slot;
    made.per_round =
        call.per_round != 0 ? call.per_round : slot * static_cast<unsigned>(parts) * call.slices;
    made.algorithm = call.algorithm;
    made.protocol = call.protocol;
    made.channels = static_cast<std::uint8_t>(call.channels != 0 ? call.channels : shape_.channels);
    return made;
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
      end.lane = cuda::end_lane(lane, to);
      *at(from, i, cuda::kOutgoing, out) = end;
      connection.peer = from;
      end.lane = cuda::end_lane(lane, from);
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
