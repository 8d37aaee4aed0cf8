// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels over connections, and the state that they keep in memory between
// launches.
//
// A CTA runs one channel of one rank ("station"). A connection leads from one rank to another on a
// channel and a lane (the number of the tree; rings use lane 0), and exists once per protocol.
// Slots and `tail` are in the receiver's memory, `head` is in the sender's, or all are in host
// memory that both reach. No argument changes from call to call, so a captured launch can be
// replayed: the number of slots that an end has filled or emptied is in device memory, read when a
// kernel starts and written when it ends. Plain structs, read by host and device; sizes are bytes
// unless a field says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/fn.h"
#include "base/types.h"
#include "kernels/algorithms/table.h"
#include "kernels/cuda/begun_launch.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/shapes.h"
#include "transport/connection.h"

namespace rondo::cuda {

enum class Protocol : std::uint8_t { kSimple, kLL, kLL128 };  // protocols
inline constexpr int kProtocols = 3;

// The state of one end of a connection, kept by its own rank. slot_count 0: no connection.
struct DeviceEnd {
  Connection connection;
  std::uint64_t step;   // total number of slots that this end has filled or emptied
  std::uint64_t known;  // newest value of the other end's counter that this end has read
  std::int32_t lane;
  std::int32_t next_slot;  // step % slot_count
};
static_assert(sizeof(DeviceEnd) % 8 == 0);

inline constexpr int kEnds = 8;  // per channel, protocol and direction
enum Direction { kOutgoing, kIncoming, kDirections };
// Ends of a rank: [channel][protocol][direction][kEnds].
inline constexpr int kChannelEnds = kProtocols * kDirections * kEnds;

// LL: a line carries 8 bytes of data, 4 beside each flag.
inline constexpr std::uint64_t kLineData = 8;
inline constexpr std::uint64_t kLineSize = 16;
inline constexpr std::uint64_t kLLSlotLines = shapes::kLLSlotLines;  // 8 bytes of data each
// LL128: 120 bytes of data and a flag of 8. Two lines together carry 15 vectors of 16 bytes.
inline constexpr std::uint64_t kLongLineData = 120;
inline constexpr std::uint64_t kLongLineSize = 128;
inline constexpr std::uint64_t kLL128SlotLines = shapes::kLL128SlotLines;  // even

// Size of a slot, and of the data in it; `simple` is the size for the Simple protocol.
constexpr std::uint64_t slot_bytes_of(Protocol protocol, std::uint64_t simple) {
  return protocol == Protocol::kLL      ? kLLSlotLines * kLineSize
         : protocol == Protocol::kLL128 ? kLL128SlotLines * kLongLineSize
                                        : simple;
}
constexpr std::uint64_t slot_data_of(Protocol protocol, std::uint64_t simple) {
  return protocol == Protocol::kLL      ? kLLSlotLines * kLineData
         : protocol == Protocol::kLL128 ? kLL128SlotLines * kLongLineData
                                        : simple;
}

// Slots of a connection, where Simple and LL have `usual`. A ring's chunk is two slots, so with
// four of them a rank fills one as soon as its peer has emptied the last but one. The way of that
// credit is longer than a job of LL128; twice the slots hide it.
constexpr std::uint64_t slot_count_of(Protocol protocol, int usual) {
  return static_cast<std::uint64_t>(usual) * (protocol == Protocol::kLL128 ? 2 : 1);
}

inline constexpr int kMaxChannels = 64;

// Size of the order of ranks on a channel, which its ring and trees over positions use: this rank's
// own position, then the rank at every position. The orders of all channels follow each other.
constexpr std::uint64_t order_words(int ranks) { return 1 + static_cast<std::uint64_t>(ranks); }

// Number of calls that a channel of a rank has begun, and has ended with everything published to
// the peers (never for a call that failed). Ranks at the same call have equal numbers, also with
// replayed graphs and with any number of calls per launch.
struct ChannelProgress {
  std::uint64_t begun, done;
};

// A rank's words in host memory that its kernels reach: commands to them, and their reports.
struct alignas(128) Control {
  std::uint32_t abort;     // set by the host, or by a kernel that gave up: all waits end
  std::uint32_t claimed;   // 1: one of the overlong waits writes the report
  std::uint32_t gave_up;   // set by a kernel: 1 when all fields below are written
  std::uint64_t limit_ns;  // a wait without progress for this time gives up; 0: no limit
  // The wait that gave up.
  CallRecord call;
  std::uint64_t step;
  std::int32_t channel, peer;
  std::uint32_t wants_room;  // 1: waits for the peer to empty a slot; 0: for its data
  // Where they differ it was no wait, but a wrong count: wants_room is a CountFault.
  std::uint64_t sent, taken;
  BegunLaunch newest[2];  // call n of channel 0: [n % 2]
  ChannelProgress progress[kMaxChannels];
};

inline constexpr int kMaxStations = 64;  // ranks of one launch

// A launch runs a list of calls, one after another. For each call, a CTA does exactly what it would
// do if the call were alone in its launch. So ranks whose lists are cut differently, or that have
// no list, run the same calls together (collectives/gpu/calls/call_run.h).
struct ConnectedArgs {
  struct Station {
    DeviceEnd* ends;
    Control* control;
    std::uint64_t* launches;  // by channel: number of calls run, in device memory, preceded by a
                              // digest of these calls
    std::int32_t rank;
    std::uint32_t orders;  // bytes from `ends` to the order_words() of all channels; 0: rank order
  };
  struct Call {
    CallRecord record;        // also for reports of what a kernel waits for
    std::uint64_t count;      // elements of a block, as in `record` (copies: bytes)
    std::uint64_t per_round;  // elements per channel (Rounds)
    std::uint64_t slice;      // elements that one job moves: what a slot holds
    Algorithm algorithm;
    Protocol protocol;
    std::uint8_t channels;  // channels that run it: the first of the launch
    bool one_tree;          // each channel runs one tree of the double tree (tree_of_channel())
  };
  struct Buffers {
    const void* input;
    void* output;
    std::uint64_t scalar;  // PreMulSum: the rank's factor, or its address
  };

  std::int32_t ranks;
  std::uint8_t stations, channels;  // CTA b: station b / channels, channel b % channels
  std::uint8_t calls;
  std::uint8_t groups;         // concurrent roles: two if the algorithm uses roles()
  std::uint64_t late_scalars;  // bit place_of_buffers(): `scalar` is a device address, read when
                               // the kernel runs
  // Stations, then calls, then the Buffers of every station for each call. There may be many
  // stations or many calls, not both.
  alignas(8) std::byte lists[3632];

  RONDO_FN const Station& station(int s) const {
    return reinterpret_cast<const Station*>(lists)[s];
  }
  RONDO_FN const Call& call(int k) const {
    return reinterpret_cast<const Call*>(lists + stations * sizeof(Station))[k];
  }
  RONDO_FN int place_of_buffers(int k, int s) const { return k * stations + s; }
  RONDO_FN const Buffers& buffers(int k, int s) const {
    const std::byte* const at = lists + stations * sizeof(Station) + calls * sizeof(Call);
    return reinterpret_cast<const Buffers*>(at)[place_of_buffers(k, s)];
  }
  RONDO_FN bool is_late(int k, int s) const {
    return (late_scalars >> place_of_buffers(k, s) & 1) != 0;
  }
#ifndef __CUDACC__
  // For the launching host, after `stations` and `calls` are set.
  Station& station(int s) { return const_cast<Station&>(std::as_const(*this).station(s)); }
  Call& call(int k) { return const_cast<Call&>(std::as_const(*this).call(k)); }
  void put_buffers(int k, int s, const Buffers& of, bool late) {
    const_cast<Buffers&>(buffers(k, s)) = of;
    late_scalars |= std::uint64_t{late} << place_of_buffers(k, s);
  }
#endif
  static constexpr bool has_room(std::size_t stations, std::size_t calls) {
    return stations * calls <= 64 &&
           stations * sizeof(Station) + calls * sizeof(Call) + stations * calls * sizeof(Buffers) <=
               sizeof(lists);
  }
};
static_assert(sizeof(ConnectedArgs) == 3648 && ConnectedArgs::has_room(kMaxStations, 1));

// A group of threads: one warp runs the algorithm, one signals the peers, the others move data.
inline constexpr unsigned kServiceWarps = 2;
// Shared memory of every launch.
inline constexpr unsigned kConnectedShared = 4096;
// Maximum threads per CTA: 96 registers each, or 128 if conversions and scalars need them.
inline constexpr int kConnectedThreads = 640;
inline constexpr int kConnectedHeavyThreads = 512;

// Sums and averages with their own kernels. All other operations of a type share one kernel.
constexpr bool has_sum_kernel(DataType type, RedOp op) {
  return (op == RedOp::kSum || op == RedOp::kAvg) && is_float(type) && size_of(type) > 1;
}
// Sums that direct kernels read in groups of kNarrowRanks ranks. Averages of float64 lack
// registers.
constexpr bool sums_in_groups(DataType type, RedOp op) {
  return has_sum_kernel(type, op) && !(type == DataType::kFloat64 && op == RedOp::kAvg);
}
constexpr int connected_threads(DataType type, RedOp op) {
  return has_sum_kernel(type, op) ? kConnectedThreads : kConnectedHeavyThreads;
}

// Lines of LL that a thread loads before it waits, and pairs of lines of LL128 that a lane loads at
// once, after its warp has waited for kLL128Pairs of each lane. sums: in a kernel of
// has_sum_kernel(), for elements of `width` bytes.
constexpr int ll_lines(bool sums, std::size_t width) {
  return sums && width == 2 ? shapes::kLLNarrowLines : shapes::kLLLines;
}
constexpr int ll128_pairs(bool reduces) {
  return reduces ? shapes::kLL128SumPairs : shapes::kLL128Pairs;
}
inline constexpr unsigned kLineLanes = 8;  // LL128: lanes that share a line

// Bytes of data that a warp of workers moves before it waits again: the best size of a warp's share
// of a job. Simple: half of what a thread can have in flight, so that jobs smaller than a slot get
// more threads.
constexpr std::uint64_t batch_of_warp(Protocol protocol, bool sums, std::size_t width) {
  constexpr std::uint64_t kWarp = 32, kSimpleBytes = 64;
  switch (protocol) {
    case Protocol::kLL:
      return kWarp * kLineData * static_cast<unsigned>(ll_lines(sums, width));
    case Protocol::kLL128:
      return kWarp / kLineLanes * 2 * kLongLineData * unsigned{shapes::kLL128Pairs};
    case Protocol::kSimple:
      break;
  }
  return kWarp * kSimpleBytes;
}

}  // namespace rondo::cuda
