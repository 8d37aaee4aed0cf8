// HostRank: what a rank's executors keep from call to call on one communicator.
//
// The view is that of one host: peers are indexed by local rank. Counters are never reset; all
// ranks of the view take the same number of steps in every call, so absolute steps agree between
// ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/wait.h"
#include "transport/connection.h"

namespace rondo::host {

struct HostCall;

template <class A = DoorbellAtomics>  // an Atomics policy, see base/doorbell.h
struct BasicHostRank {
  int rank = 0;  // in this view
  int size = 1;
  std::vector<int> global;      // rank in the communicator of every rank of the view
  std::vector<PeerPort> peers;  // all ranks of the view, this one included
  std::size_t slot_bytes = 0;   // of one staging slot
  bool all_same_process = false;

  BasicWaiter<A> waiter;
  // Tells the communicator that rank `peer` of it made the call `theirs` where this rank made
  // `mine`; where the two are equal, they differ in an earlier call. `number`: of their call, or 0:
  // of this one.
  void* owner = nullptr;
  void (*on_mismatch)(void* owner, int peer, const CallRecord& mine, const CallRecord& theirs,
                      std::uint64_t number) = nullptr;
  // The supervisor of a wait for the end of peers' touches, which needs these peers.
  bool (*await_touches)(void* owner, const WaitSite& site, bool first) = nullptr;
  // Takes what the call exposes out of the reach of peers that stand still in a touch.
  void (*cut_off)(void* owner, const HostCall& call, std::uint32_t exposure) = nullptr;
  // What of `exposure` may be exposed: memory that was cut off may not. And false (and a fault)
  // where a call's output has been cut off meanwhile by another communicator.
  std::uint32_t (*exposable)(void* owner, const HostCall& call, std::uint32_t exposure) = nullptr;
  bool (*still_whole)(void* owner, const HostCall& call) = nullptr;
  // Maps the extent of the peer's arena in which the place lies; false (and a fault) where it
  // cannot.
  bool (*on_first_reach)(void* owner, int peer, std::uint64_t place) = nullptr;
  // Makes own staging memory present before it is written; false where there is no memory.
  bool (*on_commit)(void* owner, void* at, std::size_t bytes) = nullptr;
  bool commit(void* at, std::size_t bytes) { return on_commit(owner, at, bytes); }

  std::uint64_t sequence = 0;                   // newest announced call, from 1
  std::uint64_t history = 0;                    // mixed from all records announced
  int next_compared = 0;                        // peer whose past is compared in the next call
  std::uint64_t step = 0;                       // publications of this rank
  bool owes_step = false;                       // the newest of them has not been told yet
  std::uint64_t slot_last[kStagingSlots] = {};  // step that published the slot's last contents
  std::size_t slot_committed[kStagingSlots] = {};
  std::vector<std::uint64_t> known_step;      // newest step seen of each peer
  std::vector<std::uint64_t> known_sequence;  // newest announcement seen, and checked, of each peer
  std::vector<std::uint32_t> exposure;        // flags of that announcement

  OwnArena arena;  // for zero-copy between processes

  const PeerPort& self() const { return peers[rank]; }
  // What slots of the newest announced call carry: its number and the history of calls, in short.
  // Slots of ranks that made the same calls carry the same.
  std::uint32_t call_tag() const {
    return static_cast<std::uint32_t>(history >> 48) << 16 |
           static_cast<std::uint32_t>(sequence & 0xffff);
  }
  // The number of the call that such a tag belongs to, near the newest one.
  std::uint64_t number_of(std::uint32_t tag) const {
    const auto ahead = static_cast<std::int16_t>(static_cast<std::uint16_t>(tag - sequence));
    return sequence + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
  }
  // The call of number `sequence` is complete: this rank's end would harm nobody in it.
  void finish_call() { HostAtomics::store_release(self().progress->finished, sequence); }
};

using HostRank = BasicHostRank<>;

class Segments;  // kernels/host/segments.h

// One call as one rank makes it. Buffers are host memory; a rank that has no part in the data of
// one side (non-roots) may pass null there.
struct HostCall {
  CallRecord record;  // as announced
  const void* input = nullptr;
  void* output = nullptr;
  DataType type = DataType::kInt8;
  RedOp op = RedOp::kSum;
  int root = -1;                 // in the view
  const void* scalar = nullptr;  // PreMulSum's factor: one element of the type
  bool may_expose_input = true;  // the algorithm allows peers to read the input in place
  bool may_expose_output = true;
  const Segments* segments = nullptr;  // of a group that runs as one: then no input and output
  bool stream_stores = false;          // results leave the cache: use non-temporal stores
};

}  // namespace rondo::host
