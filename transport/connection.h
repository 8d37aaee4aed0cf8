// The plain structs that algorithms' executors see: words and buffers, wherever transports put
// them.
//
// Nothing here has behaviour or knows who made it. Words are written by one rank each and read by
// many, through an Atomics policy (base/atomics.h). Counters are 64 bits and never reset. Sizes are
// bytes unless a field says otherwise. The layouts are shared between processes: a change of any of
// them changes kLayoutVersion.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace rondo {

inline constexpr std::uint32_t kLayoutVersion = 13;
inline constexpr std::size_t kLineBytes = 64;
inline constexpr int kAnnounceDepth = 64;         // calls that a rank may run ahead of the slowest
inline constexpr std::size_t kPayloadBytes = 32;  // data that travels inside the announcement
inline constexpr std::size_t kBesideBytes = 512;  // data that lies beside it
inline constexpr int kSignals = 8;                // that a rank can raise at every other one
inline constexpr int kMaxGrouped = 253;           // calls of a group that may run as one
inline constexpr int kStagingSlots = 4;           // parts of a rank's staging memory

// One call as one rank announced it. `sequence` is written last (it publishes the rest): call
// number + 1, so that zeroed memory announces nothing.
struct alignas(kLineBytes) AnnounceLine {
  std::uint64_t sequence;
  CallRecord record;
  std::uint32_t exposure;  // kExposesInput | kExposesOutput: then the payload is an Exposure
  std::uint32_t history;   // of all records up to this one: equal where all calls were equal
  std::byte payload[kPayloadBytes];
};
static_assert(sizeof(AnnounceLine) == kLineBytes);

// Data of an announced call that is too much for the announcement and not worth a meeting of its
// own: written before the announcement, and free again when that is.
struct alignas(kLineBytes) BesideLines {
  std::byte payload[kBesideBytes];
};

inline constexpr std::uint32_t kExposesInput = 1;
inline constexpr std::uint32_t kExposesOutput = 2;

// Memory of ncclMemAlloc lies in the process's arena, a memory file that other processes of the
// host map extent by extent, as they meet them. A place names a byte of it: its offset in the file
// in the low bits, above them the binary logarithm of the extent's size. Extents are of a power of
// two, aligned to their size, and at least one piece. 0: not in the arena.
inline constexpr int kArenaPieceBits = 26;
inline constexpr std::uint64_t kArenaPiece = std::uint64_t{1} << kArenaPieceBits;
inline constexpr int kPlaceOffsetBits = 56;
inline constexpr std::uint64_t kPlaceOffset = (std::uint64_t{1} << kPlaceOffsetBits) - 1;
// In own tables alone: some of the piece is kept from peers (see OwnArena).
inline constexpr std::uint64_t kPlacePartly = std::uint64_t{1} << 63;

// This process's arena.
inline constexpr std::uint64_t kArenaAddresses = std::uint64_t{1} << (48 - kArenaPieceBits);
struct OwnArena {
  const std::uint64_t* places = nullptr;  // by address / kArenaPiece: the place of its first byte
  const std::uint64_t* withdrawals = nullptr;  // times that memory was taken out of peers' reach
};

// Where the buffers of an announced call can be read (input) and written (output) by peers. A
// pointer is followed only by ranks of the same process, a place by those of others.
struct Exposure {
  std::uint64_t input_pointer;
  std::uint64_t output_pointer;
  std::uint64_t input_place;
  std::uint64_t output_place;
};
static_assert(sizeof(Exposure) <= kPayloadBytes);

// The calls that a rank's newest fused call consists of. A rank that made different calls can name
// them in its error. `sequence` is the call's number while the list is complete.
struct alignas(kLineBytes) GroupList {
  std::uint64_t sequence;
  std::uint32_t calls;
  std::uint32_t counts[kMaxGrouped];  // elements of each
};
static_assert(sizeof(GroupList) == 1024);

// Who a rank is, for who looks in from outside; written once at init, `pid` last.
struct alignas(kLineBytes) IdentityLine {
  std::int32_t pid;  // 0: not there yet
  std::int32_t rank, size;
  std::uint32_t pid_namespace;  // in which `pid` counts; 0: unknown
  char name[48];                // of the communicator; may be empty
};
static_assert(sizeof(IdentityLine) == kLineBytes);

// Progress that peers poll. `step` counts publications of this rank on this communicator.
struct alignas(kLineBytes) StepLine {
  std::uint64_t step;
  std::uint64_t sequence;  // newest announced call number + 1
};

// What a rank is doing while it waits; except for `finished` and `touching` it is written only once
// its spinning is over. For diagnosis, and for those who depend on a rank that may be gone.
struct alignas(kLineBytes) ProgressLine {
  std::uint64_t sequence;    // number of its newest announced call
  std::uint64_t finished;    // newest announced call that it has completed
  std::uint64_t step;        // publications so far
  std::int32_t waiting_for;  // rank, or -1
  std::int32_t state;        // kOutside, kWaiting, kWaitingTwice, kLeft
  CallRecord call;           // in which it waits: announced, or a message
  std::uint32_t waits;       // waits that it has begun
  std::uint32_t checks;      // times that a wait found its condition still unmet
  std::uint32_t touching;    // odd while it reads or writes buffers that its peers have exposed
  std::uint32_t quiet;       // of the rank of another host that it waits for: in that wait of it
                             // nothing was on its way between the two; 0: not known
};
static_assert(sizeof(ProgressLine) == kLineBytes);
inline constexpr std::int32_t kOutside = 0;
inline constexpr std::int32_t kWaiting = 1;
inline constexpr std::int32_t kWaitingTwice = 2;  // two parts of its call wait, for different ranks
inline constexpr std::int32_t kLeft = 3;

// One fault, written once by its rank; state is written last.
struct alignas(kLineBytes) FaultSlot {
  std::uint32_t state;   // 0 none, 1 set
  std::int32_t status;   // StatusCode
  std::int32_t rank;     // who wrote it
  std::int32_t culprit;  // whom it blames, or -1
  std::uint64_t sequence;
  CallRecord own;
  CallRecord other;  // the culprit's call where it differs
  char text[3528];   // the sentence, NUL-terminated
};

// One rank of this host as any other sees it: pointers into memory mapped by this process.
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
  std::uint64_t* signals;  // by local rank that raises them, kSignals each; they only grow
  std::byte* staging;      // kStagingSlots equal parts
  // Where the pieces of its process's arena lie here; 0: not mapped yet. Null: cannot be reached.
  const std::uint64_t* arena;
  bool same_process;
};

// A one-way channel of slots between two ranks, for algorithms that pass data along.
// The sender fills slot (tail % slot_count) and then advances tail; the receiver empties it and
// advances head. Transports decide where the words live and who moves the bytes in between.
struct Connection {
  std::byte* buffer;  // slot_count slots of slot_bytes each
  std::uint64_t slot_bytes;
  std::uint64_t slot_count;
  std::uint64_t* tail;        // slots ever filled
  std::uint64_t* head;        // slots ever emptied
  CallRecord* records;        // per slot: the call that filled it (the fingerprint beside tail)
  std::uint64_t* used;        // per slot: bytes in it; above bit 32 the tag of that call
  std::uint32_t* peer_bell;   // doorbell of the rank at the other end, or null (not on this host)
  std::uint8_t* peer_parked;  // its parked flag, or null
  std::int32_t peer;          // rank at the other end
};

}  // namespace rondo
