// SPDX-License-Identifier: Apache-2.0
// The plain structs that the executors of algorithms use: words and buffers in memory that
// transports provide.
//
// The structs have no behaviour and do not depend on the transport. One rank writes each word and
// many ranks read it, through an Atomics policy (base/atomics.h). Counters have 64 bits and never
// reset. Sizes are bytes unless a field says otherwise. Processes share the layouts: change
// kLayoutVersion with any of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace rondo {

inline constexpr std::uint32_t kLayoutVersion = 24;
inline constexpr std::size_t kLineBytes = 64;
inline constexpr int kAnnounceDepth = 64;         // max calls that a rank is ahead of the slowest
inline constexpr std::size_t kPayloadBytes = 32;  // data inside the announcement
inline constexpr std::size_t kBesideBytes = 512;  // data beside the announcement
inline constexpr int kSignals = 8;                // signals from each rank to each other rank
inline constexpr int kMaxGrouped = 253;           // max calls of a group that run as one
inline constexpr int kStagingSlots = 4;           // parts of a rank's staging memory
inline constexpr int kSlotParts = 16;             // max parts of a slot, in calls of little data
inline constexpr std::size_t kPartedBytes = 64 << 10;  // of a slot, that the parts divide
inline constexpr int kTracedCalls = 4096;              // newest calls in a rank's black box
inline constexpr int kTraceSizes = 6;                  // classes of sizes in its totals
inline constexpr int kCollectives = static_cast<int>(Collective::kWaitSignal) + 1;

// A call that a rank announces. `sequence` is written last and publishes the rest. It is the call
// number + 1, so that zeroed memory announces nothing.
struct alignas(kLineBytes) AnnounceLine {
  std::uint64_t sequence;
  CallRecord record;
  std::uint32_t flags;    // kExposes...: the payload is an Exposure; kWantsLargerRounds
  std::uint32_t history;  // hash of all records so far; equal if all calls were equal
  std::byte payload[kPayloadBytes];
};
static_assert(sizeof(AnnounceLine) == kLineBytes);

// Data of an announced call that is too large for the announcement, but too small to justify its
// own synchronization. Written before the announcement; reusable when the announcement is.
struct alignas(kLineBytes) BesideLines {
  std::byte payload[kBesideBytes];
};

inline constexpr std::uint32_t kExposesInput = 1;
inline constexpr std::uint32_t kExposesOutput = 2;
// The input is private memory: other processes read it at input_pointer by ProcessMemory.
inline constexpr std::uint32_t kExposesToReads = 4;
// The rank's waits sleep: from the second round on, all ranks take rounds kLargerRounds times as
// large, in algorithms that can.
inline constexpr std::uint32_t kWantsLargerRounds = 8;
inline constexpr int kLargerRounds = 4;

// ncclMemAlloc allocates in the arena of the process, a memory file. Other processes of the host
// map it extent by extent, at first use. A place identifies a byte of it: the low bits are the
// offset in the file, the bits above are log2 of the extent's size. The size of an extent is a
// power of two, at least one piece; extents are aligned to their size. Place 0: not in the arena.
inline constexpr int kArenaPieceBits = 26;
inline constexpr std::uint64_t kArenaPiece = std::uint64_t{1} << kArenaPieceBits;
inline constexpr int kPlaceOffsetBits = 56;
inline constexpr std::uint64_t kPlaceOffset = (std::uint64_t{1} << kPlaceOffsetBits) - 1;
// Only in the process's own table: part of the piece is not accessible to peers (see OwnArena).
inline constexpr std::uint64_t kPlacePartly = std::uint64_t{1} << 63;

// This process's arena.
inline constexpr std::uint64_t kArenaAddresses = std::uint64_t{1} << (48 - kArenaPieceBits);
struct OwnArena {
  const std::uint64_t* places = nullptr;       // by address / kArenaPiece: place of the first byte
  const std::uint64_t* withdrawals = nullptr;  // times that memory was withdrawn from peers
};

// The buffers of an announced call that peers may read (input) and write (output). Ranks of the
// same process use the pointers; ranks of other processes use the places, or read the input at its
// pointer (kExposesToReads).
struct Exposure {
  std::uint64_t input_pointer;
  std::uint64_t output_pointer;
  std::uint64_t input_place;
  std::uint64_t output_place;
};
static_assert(sizeof(Exposure) <= kPayloadBytes);

// The calls in the newest fused call of a rank, so that a rank with different calls can name them
// in its error. `sequence` is the number of the fused call while the list is complete.
struct alignas(kLineBytes) GroupList {
  std::uint64_t sequence;
  std::uint32_t calls;
  std::uint32_t counts[kMaxGrouped];  // elements of each call
};
static_assert(sizeof(GroupList) == 1024);

// The identity of a rank, for external tools. Written once at init, `pid` last.
struct alignas(kLineBytes) IdentityLine {
  std::int32_t pid;  // 0: not written yet
  std::int32_t rank, size;
  std::uint32_t pid_namespace;  // namespace of `pid`; 0: unknown
  char name[48];                // name of the communicator; may be empty
};
static_assert(sizeof(IdentityLine) == kLineBytes);

// Traffic of a rank with ranks of other hosts over its host's links, for metrics. Written by the
// thread that moves the links.
struct alignas(kLineBytes) NetworkCounters {
  std::uint64_t sent_bytes, received_bytes;  // bodies of messages
  std::uint64_t lost_peers;                  // whose links have ended
  std::uint64_t lost_rails;                  // ports of which a link lost its queue pairs
  std::uint64_t resent_parts;                // parts of messages, over other rails
};
static_assert(sizeof(NetworkCounters) == kLineBytes);

// The part of that traffic that a rank exchanges with one host over one port of its own ("rail").
// Written by the same thread; `port` first. Ports are found by name.
struct alignas(kLineBytes) RailCounters {
  char port[20];                             // "mlx5_0:1", "eth0", or the network; empty: unused
  std::int32_t host;                         // number in the communicator; -1: all others
  std::uint64_t sent_bytes, received_bytes;  // bodies of messages
  std::uint64_t busy_ns;  // with bodies under way that the peer's port has not acknowledged; 0:
                          // unknown
  std::uint64_t parts;    // of messages, acknowledged; 0: unknown
};
static_assert(sizeof(RailCounters) == kLineBytes);
// The last ones of a rank that has more are of all other hosts, and then of all other ports.
inline constexpr int kCountedRails = 16;

// Progress that peers poll. `step` counts publications of this rank on this communicator.
struct alignas(kLineBytes) StepLine {
  std::uint64_t step;
  std::uint64_t sequence;  // newest announced call number + 1
  std::uint32_t core;      // on which it announced one of its four newest calls, + 1; 0: unknown
  std::uint64_t echo;      // for the measurement of distances at init
};

// The state of a rank while it waits. Except `finished` and `touching`, it is written only after
// the spin phase of a wait. For diagnosis, and for ranks that depend on a rank that may have died.
struct alignas(kLineBytes) ProgressLine {
  std::uint64_t sequence;    // number of the newest announced call
  std::uint64_t finished;    // newest announced call that has completed
  std::uint64_t step;        // publications so far
  std::int32_t waiting_for;  // rank, or -1
  std::int32_t state;        // kOutside, kWaiting, kWaitingTwice, kLeft
  CallRecord call;           // the waiting call: announced, or point-to-point
  std::uint32_t waits;       // number of waits begun
  std::uint32_t checks;      // number of times that a wait found its condition false
  std::uint32_t touching;    // odd while it reads or writes buffers that peers have exposed
  std::uint32_t quiet;       // `waits` of the awaited rank on another host, taken when no data
                             // was in flight between the two; 0: unknown
};
static_assert(sizeof(ProgressLine) == kLineBytes);
inline constexpr std::int32_t kOutside = 0;
inline constexpr std::int32_t kWaiting = 1;
inline constexpr std::int32_t kWaitingTwice = 2;  // two parts of a call wait for different ranks
inline constexpr std::int32_t kLeft = 3;

// One fault, written once by its rank; state is written last.
struct alignas(kLineBytes) FaultSlot {
  std::uint32_t state;   // 0 none, 1 set
  std::int32_t status;   // StatusCode
  std::int32_t rank;     // rank that wrote it
  std::int32_t culprit;  // rank that it blames, or -1
  std::uint64_t sequence;
  CallRecord own;
  CallRecord other;  // the culprit's call, if different
  char text[3528];   // error message, NUL-terminated
};

// The black box of a rank: its newest calls, for tools that read it while the rank lives and after
// it has died. All ticks are those of base/ticks.h. Only its rank writes it, word by word.
struct TraceLine {
  std::uint64_t words[8];  // a CallTrace
};

struct CallTrace {
  std::uint64_t number = 0;    // of the trace, from 1; 0: none, or being written
  std::uint64_t sequence = 0;  // number of the announced call; 0: a message
  std::uint64_t entered = 0;   // ticks
  std::uint64_t ended = 0;     // ticks; 0: not ended, or a brief record has not timed it
  CallRecord call;             // messages: root is the peer
  // Waits of at least about 100 us, in units of 1024 ticks.
  std::uint32_t first_wait = 0;        // from entered to the beginning of the first one
  std::uint32_t longest_wait = 0;      // its duration
  std::int32_t longest_wait_for = -1;  // rank, or -1
  std::uint8_t waits = 0;              // number, at most 255
  std::uint8_t algorithm = 0xff;       // Algorithm; 0xff: none
  std::uint8_t protocol = 0xff;        // Protocol; 0xff: none; or kEnqueuedProtocol
  std::uint8_t result = 0;             // StatusCode
};
// A call of kernels, which has ended once it is on its stream.
inline constexpr std::uint8_t kEnqueuedProtocol = 0xfe;
static_assert(sizeof(CallTrace) == sizeof(TraceLine) && sizeof(TraceLine) == kLineBytes);

// Identity and clocks of a black box. Written at the first call, `communicator` last.
struct alignas(kLineBytes) TraceOrigin {
  std::uint64_t communicator;    // equal on its ranks, different in others; 0: no call yet
  std::uint64_t ticks;           // now
  std::int64_t monotonic_ns;     // now, by CLOCK_MONOTONIC
  std::int64_t wall_ns;          // now, since 1970
  std::int64_t offset_ns;        // CLOCK_MONOTONIC of this host minus that of rank 0's host
  std::int64_t offset_error_ns;  // bound of the offset's error
};

// Sums over all calls of one kind and size class since the communicator was made.
struct TraceTotal {
  std::uint64_t calls, bytes;           // entered
  std::uint64_t finished, spent_ticks;  // ended; from entered to ended
};

struct TraceRing {
  TraceOrigin origin;
  alignas(kLineBytes) std::uint64_t waits;  // all waits that left the spin phase
  std::uint64_t waited_ticks;
  alignas(kLineBytes) TraceTotal totals[kCollectives][kTraceSizes];
  // Record number n is in line n % kTracedCalls.
  alignas(kLineBytes) TraceLine lines[kTracedCalls];
};

// A rank of this host as seen by another rank: pointers into memory that this process has mapped.
struct PeerPort {
  AnnounceLine* announcements;  // kAnnounceDepth of them
  BesideLines* beside;          // kAnnounceDepth of them
  StepLine* steps;
  ProgressLine* progress;
  FaultSlot* fault;
  GroupList* group;
  IdentityLine* identity;
  std::uint32_t* bell;     // futex word
  std::uint8_t* parked;    // 1 while the rank sleeps
  std::uint8_t* faulted;   // 1 once its fault slot is set
  std::uint64_t* signals;  // kSignals per local rank that raises them; they only grow
  TraceRing* trace;        // has memory only once the rank has made a call
  std::byte* staging;      // kStagingSlots equal parts
  // Local addresses of the pieces of its process's arena; 0: not mapped yet. Null: not accessible.
  const std::uint64_t* arena;
  bool same_process;
};

// A one-way channel of slots between two ranks. The sender fills slot (tail % slot_count) and then
// advances tail; the receiver empties slot (head % slot_count) and then advances head. The
// transport determines where the words are, and how the bytes move.
struct Connection {
  std::byte* buffer;  // slot_count slots of slot_bytes each
  std::uint64_t slot_bytes;
  std::uint64_t slot_count;
  std::uint64_t* tail;        // total slots filled
  std::uint64_t* head;        // total slots emptied
  CallRecord* records;        // per slot: the call that filled it
  std::uint64_t* used;        // per slot: low 32 bits: bytes in it; high 32 bits: tag of the call
  std::uint32_t* peer_bell;   // doorbell of the rank at the other end, or null (not on this host)
  std::uint8_t* peer_parked;  // its parked flag, or null
  std::int32_t peer;          // rank at the other end
  bool light = false;         // the peer's doorbell has light producers (base/doorbell.h)
};

}  // namespace rondo
