// SPDX-License-Identifier: Apache-2.0
// HostRank: the state that a rank's executors keep from call to call on one communicator.
//
// It covers the ranks of one host, the "view"; peers are indexed by local rank. Counters are never
// reset. All ranks of the view take the same number of steps in every call, so absolute step
// numbers agree between ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/process.h"
#include "base/wait.h"
#include "kernels/host/call_recorder.h"
#include "kernels/host/nudge.h"
#include "kernels/host/shared_core.h"
#include "kernels/host/sharing.h"
#include "kernels/host/store_choice.h"
#include "transport/connection.h"

namespace rondo::host {

struct HostCall;

// What a rank has written to one of its staging slots. A slot has one part, or more in calls of
// little data (HostCall::slot_parts).
struct SlotUse {
  int parts = 1;                        // of the newest contents
  std::uint64_t last[kSlotParts] = {};  // by part: step that published its last contents
  std::size_t committed = 0;            // bytes with memory
};

// What a rank asks its communicator for. All are set before its first call.
struct RankHooks {
  void* owner = nullptr;  // the first argument of all others
  // Reports to the communicator that its rank `peer` made the call `theirs` where this rank made
  // `mine`. If the two are equal, the ranks differ in an earlier call. `number`: number of the
  // call; 0: this call.
  void (*on_mismatch)(void* owner, int peer, const CallRecord& mine, const CallRecord& theirs,
                      std::uint64_t number) = nullptr;
  // Supervises a wait for the end of peers' touches (touch.h); the wait needs these peers.
  bool (*await_touches)(void* owner, const WaitSite& site, bool first) = nullptr;
  // Makes what the call exposes unreachable for peers that are stuck in a touch.
  void (*cut_off)(void* owner, const HostCall& call, std::uint32_t exposure) = nullptr;
  // exposable: returns the flags of `exposure` that are allowed; memory that was cut off must not
  // be exposed. still_whole: false (and a fault) if another communicator has cut off the call's
  // output.
  std::uint32_t (*exposable)(void* owner, const HostCall& call, std::uint32_t exposure) = nullptr;
  bool (*still_whole)(void* owner, const HostCall& call) = nullptr;
  // Maps the extent of the peer's arena that contains `place`; false (and a fault) if that fails.
  bool (*on_first_reach)(void* owner, int peer, std::uint64_t place) = nullptr;
  // Raises the fault of a failed read of the peer's memory (ProcessMemory::read).
  void (*on_failed_read)(void* owner, int peer, int error) = nullptr;
  // Backs this rank's staging memory before it is written; false if there is no memory.
  bool (*on_commit)(void* owner, void* at, std::size_t bytes) = nullptr;
};

template <class A = DoorbellAtomics>  // an Atomics policy, see base/doorbell.h
struct BasicHostRank {
  int rank = 0;  // local rank in this view
  int size = 1;
  std::vector<int> global;      // by rank of the view: its rank in the communicator, ascending
  std::vector<PeerPort> peers;  // all ranks of the view, this one included
  std::size_t slot_bytes = 0;   // size of one staging slot
  bool all_same_process = false;
  bool light = false;  // stores that wake peers need no barrier (base/doorbell.h)

  BasicWaiter<A> waiter;
  SharedCore<A> core;
  Nudge nudge;
  Sharing sharing;
  StoreChoice stores;                  // of what several ranks of the host read next
  std::vector<StoreChoice> stores_to;  // by rank of the view: of what only that one reads
  CallRecorder recorder;
  RankHooks hooks;
  bool commit(void* at, std::size_t bytes) { return hooks.on_commit(hooks.owner, at, bytes); }

  std::uint64_t sequence = 0;                 // newest announced call, from 1
  std::uint64_t history = 0;                  // hash of all announced records
  int next_compared = 0;                      // next peer whose past call is compared
  std::uint64_t step = 0;                     // publications of this rank
  bool owes_step = false;                     // the newest publication is postponed
  SlotUse slots[kStagingSlots];               // of this rank's staging
  std::vector<std::uint64_t> known_step;      // newest step seen of each peer
  std::vector<std::uint64_t> known_sequence;  // newest announcement of each peer that was compared
  std::vector<std::uint64_t> entered;         // newest call that each peer was seen to enter
  std::vector<std::uint32_t> exposure;        // kExposes... of that announcement
  CoreTime core_time;                         // of its calls of many rounds
  bool wants_larger_rounds = false;           // from its next call on: it lacks time on the core
  std::uint64_t larger_rounds_call = 0;       // newest call in which a peer wants them

  OwnArena arena;                       // for zero-copy between processes
  std::vector<ProcessMemory> memories;  // by rank of the view; empty: ranks do not read them

  // Bytes that this call wrote to this rank's staging, and read from private memory of processes.
  std::uint64_t staged_bytes = 0, read_bytes = 0;

  const PeerPort& self() const { return peers[rank]; }
  // The stores of slots that only that rank of the communicator reads.
  StoreChoice& stores_for(int reader) {
    const auto at = static_cast<std::size_t>(
        std::lower_bound(global.begin(), global.end(), reader) - global.begin());
    return at < stores_to.size() && global[at] == reader ? stores_to[at] : stores;
  }
  // Tag in the slots of the newest announced call: the call's number and a short hash of the call
  // history. Ranks that made the same calls have equal tags.
  std::uint32_t call_tag() const {
    return static_cast<std::uint32_t>(history >> 48) << 16 |
           static_cast<std::uint32_t>(sequence & 0xffff);
  }
  // Number of the call with this tag. The call must be near the newest one.
  std::uint64_t number_of(std::uint32_t tag) const {
    const auto ahead = static_cast<std::int16_t>(static_cast<std::uint16_t>(tag - sequence));
    return sequence + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
  }
  // Marks call `sequence` as complete: if this rank ends now, no peer fails in that call.
  void finish_call() {
    HostAtomics::store_release(self().progress->finished, sequence);
    recorder.end_finished();
  }
};

using HostRank = BasicHostRank<>;

class Segments;  // kernels/host/segments.h

// One call of one rank. Buffers are host memory. A rank without data on one side (non-roots) may
// pass null for that side.
struct HostCall {
  CallRecord record;                  // what runs
  const CallRecord* whole = nullptr;  // the program's call, if this one is a step of it
  const void* input = nullptr;
  void* output = nullptr;
  DataType type = DataType::kInt8;
  RedOp op = RedOp::kSum;
  int root = -1;                 // local rank in the view
  const void* scalar = nullptr;  // PreMulSum: the factor, one element of the type
  bool may_expose_input = true;  // the algorithm allows peers to read the input directly
  bool may_expose_output = true;
  bool may_expose_to_reads = false;    // the call only copies, and ranks may read peers' memory
  int slot_parts = 1;                  // of a staging slot; more than 1: one round, with a root
  const Segments* segments = nullptr;  // a fused group: then input and output are null
  bool stream_stores = false;          // results leave the cache: use non-temporal stores

  // What ranks announce and compare.
  const CallRecord& announced() const { return whole != nullptr ? *whole : record; }
};

}  // namespace rondo::host
