// What the kernels over connections are told, and what they keep in memory between launches.
//
// A CTA plays one channel of one rank ("station"). A connection leads from one rank to another on a
// channel and a lane (the trees' two numbers; rings use lane 0), once for each protocol: slots and
// `tail` lie at the receiver, `head` at the sender, or all of it in host memory that both reach.
// Nothing that changes from call to call is an argument: how many slots an end has filled or
// emptied lies in device memory, read when a kernel starts and written when it ends, so that a
// captured launch can be replayed. Plain structs, read by host and device; sizes are bytes unless a
// field says otherwise.
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

// One end of a connection as its own rank keeps it. No connection: slot_count is 0.
struct DeviceEnd {
  Connection connection;
  std::uint64_t step;   // slots that this end has filled or emptied, ever
  std::uint64_t known;  // the newest value of the other end's counter that this one has seen
  std::int32_t lane;
  std::int32_t next_slot;  // step % slot_count
};
static_assert(sizeof(DeviceEnd) % 8 == 0);

inline constexpr int kEnds = 8;  // of a channel, a protocol and a direction
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

// Bytes of a slot, and of the data in it, where one of Simple has `simple`.
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

inline constexpr int kMaxChannels = 64;

// In which order the ranks stand on a channel, in its ring and in trees over its positions: this
// rank's own position, then the rank at every position. One behind the other, by channel.
constexpr std::uint64_t order_words(int ranks) { return 1 + static_cast<std::uint64_t>(ranks); }

// Calls that a channel of a rank has played: begun, and over with everything told to the peers (one
// that failed never is). Ranks that are equally far have equal numbers, replays of graphs included,
// and however many calls each of their launches plays.
struct ChannelProgress {
  std::uint64_t begun, done;
};

// A rank's words in host memory that its kernels reach: orders to them, and what they say.
struct alignas(128) Control {
  std::uint32_t abort;     // set by the host, or by a kernel that gave up: every wait ends at once
  std::uint32_t claimed;   // 1: one of the waits that last too long has the word
  std::uint32_t gave_up;   // set by a kernel: 1 once all below says why
  std::uint64_t limit_ns;  // a wait that sees no progress for so long gives up; 0: none does
  // The wait that gave up.
  CallRecord call;
  std::uint64_t step;
  std::int32_t channel, peer;
  std::uint32_t wants_room;  // 1: waits until the peer has emptied a slot; 0: for its data
  BegunLaunch newest[2];     // call n of channel 0: [n % 2]
  ChannelProgress progress[kMaxChannels];
};

inline constexpr int kMaxStations = 64;  // ranks of one launch

// A launch plays a list of calls, one after the other: call after call, what a CTA does of each is
// what it would do were the call alone in its launch. So ranks whose lists are cut in other ways,
// or that have no list at all, play the same calls together (collectives/gpu/call_runs.h).
struct ConnectedArgs {
  struct Station {
    DeviceEnd* ends;
    Control* control;
    std::uint64_t* launches;  // by channel: how many calls it has played, in device memory; before
                              // them lies a digest of these
    std::int32_t rank;
    std::uint32_t orders;  // bytes from `ends` to order_words() of all channels; 0: rank
                           // after rank
  };
  struct Call {
    CallRecord record;        // also to report what a kernel waits for
    std::uint64_t count;      // of a block, as in `record` (copies: bytes)
    std::uint64_t per_round;  // of a channel (Rounds)
    std::uint64_t slice;      // of a verb that a job does: what a slot holds
    Algorithm algorithm;
    Protocol protocol;
    std::uint8_t channels;  // that play it: the first of the launch's
  };
  struct Buffers {
    const void* input;
    void* output;
    std::uint64_t scalar;  // PreMulSum: the rank's factor, or where it lies
  };

  std::int32_t ranks;
  std::uint8_t stations, channels;  // CTA b: station b / channels, channel b % channels
  std::uint8_t calls;
  std::uint8_t groups;         // texts at once: two for those that use roles()
  std::uint64_t late_scalars;  // bit place_of_buffers(): `scalar` is a device address, read when
                               // the kernel runs
  const std::uint64_t* done;   // 1 there: nothing is left to do (agree.h); null: all is
  // Stations, then calls, then a Buffers of every station for each call: many of one or the other.
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
  // For who launches, once `stations` and `calls` are set.
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
static_assert(sizeof(ConnectedArgs) == 3656 && ConnectedArgs::has_room(kMaxStations, 1));

// A group of threads: one warp runs the text, one tells the peers, the others move data.
inline constexpr unsigned kServiceWarps = 2;
// Shared memory of a launch, whatever it does.
inline constexpr unsigned kConnectedShared = 4096;
// What bulk copies need beside it (bulk_mover.h): pieces, and barriers behind them.
inline constexpr unsigned kBulkStages = 4;
inline constexpr unsigned kBulkPiece = 8 << 10;
inline constexpr unsigned kBulkShared = kBulkStages * kBulkPiece + 128;
// Most threads a CTA: 96 registers each, or 128 where conversions and scalars need them.
inline constexpr int kConnectedThreads = 640;
inline constexpr int kConnectedHeavyThreads = 512;

// Sums and averages that have kernels of their own; one kernel a type does all others.
constexpr bool has_sum_kernel(DataType type, RedOp op) {
  return (op == RedOp::kSum || op == RedOp::kAvg) && is_float(type) && size_of(type) > 1;
}
constexpr int connected_threads(DataType type, RedOp op) {
  return has_sum_kernel(type, op) ? kConnectedThreads : kConnectedHeavyThreads;
}

}  // namespace rondo::cuda
