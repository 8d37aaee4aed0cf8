// SPDX-License-Identifier: Apache-2.0
// HostSegment: the shared memory through which the ranks of one host communicate.
//
// One memory file per communicator and host. The host's leader creates it; every process that has
// ranks in it maps it. For each local rank it holds the words of transport/connection.h, staging
// memory, and room for slots from every other rank. It is sparse: a page costs memory only once it
// is used. Guarantees: it contains only offsets and single-writer words; mapping checks a layout
// version. Cost: about 16 KiB per rank, 264 KiB from the first call on, more from the first staged
// call on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/connection.h"
#include "transport/shm/memfd.h"

namespace rondo::shm {

// How far a rank of another library's communicator (collectives/watch) is with the oldest of its
// calls that have not ended.
enum WatchedPhase : std::int32_t {
  kNotWatched,  // a rank of Rondo
  kIdle,        // all have ended
  kEntered,     // called, perhaps in a group that has not ended
  kEnqueued,    // on its stream; its kernel has not begun
  kInKernel,
  kUnseen,  // on its stream, and no event tells when it runs and ends
};

// What a rank shows to a status query, beside ProgressLine. Only queries read it, and ranks that
// shrink, so the line stays in the rank's cache. Times are now_ns(), base/seconds.h.
struct alignas(kLineBytes) ActivityLine {
  static constexpr int kCounted = 5;  // AllReduce, Broadcast, Reduce, AllGather, ReduceScatter
  std::int64_t wait_began_ns;         // the newest wait that was longer than its spin budget
  std::int64_t wait_seen_ns;          // when the rank last found that it still waits
  std::uint64_t calls[kCounted];      // entered; by Collective - 1
  // Digest of the survivors that the rank is about to meet, for those of them; 0: none.
  std::uint64_t survivors;
  // Of a rank on a GPU: written by the watch of its kernels and streams.
  struct alignas(kLineBytes) Device {
    std::uint64_t begun;         // calls and parts of launches: equal on ranks at the same point
    std::int64_t wait_began_ns;  // when something moved last, while it waits
    std::int64_t wait_seen_ns;   // when the watch last found that it still waits
    CallRecord call;             // in which it waits
    std::int32_t waiting_for;    // a rank; -1: one that has begun less
    std::int32_t phase;          // of a watched rank: a WatchedPhase; else 0
    std::int32_t network_peer;   // of a watched rank: for whose data its network waits; -1: none
    std::uint32_t network_step;  // of that transfer
  } device;
  NetworkCounters network;
  RailCounters rails[kCountedRails];
  // Memory of the rank, for metrics.
  struct alignas(kLineBytes) Memory {
    std::uint64_t shared_bytes;                // in this segment, without the record of calls
    std::uint64_t pinned_bytes, device_bytes;  // of a rank on a GPU
  } memory;
};
static_assert(sizeof(ActivityLine) == (4 + kCountedRails) * kLineBytes);

// More that a watched rank shows, its messages with each other rank above all. A page of its own,
// which other ranks do not have.
struct WatchedMessages {
  static constexpr int kRanks = 1000;  // messages with further ones are not counted
  // How many have begun to run, and how many of these have ended, modulo 256. Messages that match
  // by tags, as MPI's do, are not counted once they have ended.
  struct Counts {
    std::uint8_t begun, ended;
  };
  Counts sends[kRanks], receives[kRanks];
  std::uint64_t order;      // of its oldest call that has not ended, among all of its process
  std::int32_t has_graphs;  // of CUDA: calls of a graph are numbered when it runs
};

// Must be equal on every rank of the host; part of the record exchanged at init.
struct SegmentShape {
  int ranks = 0;                  // local ranks
  std::size_t staging_bytes = 0;  // per rank; multiple of kStagingSlots pages
  std::size_t slot_bytes = 0;     // one slot of a connection
  std::size_t slot_count = 0;     // slots of a connection
};

class HostSegment {
 public:
  // watched: of a rank of another library (collectives/watch); its file has another name, and
  // WatchedMessages.
  static Result<std::shared_ptr<HostSegment>> create(const SegmentShape& shape,
                                                     bool watched = false);
  static Result<std::shared_ptr<HostSegment>> map(Fd fd, const SegmentShape& shape);

  ~HostSegment();

  int fd() const { return fd_.get(); }
  // Called once all processes have the segment. Closes the descriptor, unless fewer than kShown
  // segments of this process are open (at most an eighth of ulimit -n). `rondo ps` finds
  // communicators by these open descriptors.
  static constexpr int kShown = 64;
  void settle();
  const SegmentShape& shape() const { return shape_; }

  // Local rank `index` in this process's mapping; the caller fills in arena and same_process.
  PeerPort port(int index) const;
  ActivityLine* activity(int index) const;
  WatchedMessages* messages() const;  // null: not watched

  // The connection from local rank `from` to `to`; the caller fills in `peer`. Lanes separate
  // streams whose relative order can differ between ranks. The sender must call commit_connection
  // before its first use: it makes the memory present and returns the number of bytes.
  static constexpr int kLanes = 4;
  Connection connection(int from, int to, int lane) const;
  Result<std::size_t> commit_connection(int from, int to, int lane) const;

 private:
  HostSegment(Fd fd, Mapping mapping, const SegmentShape& shape);

  Fd fd_;
  Mapping mapping_;
  SegmentShape shape_;
  bool watched_ = false, shown_ = false;
};

// Layout of a HostSegment's file: for HostSegment, which creates and maps it, and for SegmentView,
// which only reads it.
//
// The words of the ranks are first, and their offsets depend only on the number of ranks.
inline constexpr std::uint64_t kSegmentMagic = 0x316f646e6f72ULL;  // "rondo1"
inline constexpr std::size_t kSegmentPage = 4096;
inline constexpr const char* kSegmentFile = "rondo";        // names, as /proc/PID/fd shows them
inline constexpr const char* kWatchedFile = "rondo-watch";  // of one rank of another library

inline constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ranks;
  std::uint64_t total_bytes;
  std::uint64_t watched_at;  // offset of WatchedMessages; 0: none
};
static_assert(sizeof(WatchedMessages) <= kSegmentPage);

// The words of one rank. Its flag bytes are elsewhere, adjacent to those of the other ranks.
struct RankWords {
  AnnounceLine announcements[kAnnounceDepth];
  BesideLines beside[kAnnounceDepth];
  StepLine steps;
  ProgressLine progress;
  FaultSlot fault;
  GroupList group;
  IdentityLine identity;
  alignas(kLineBytes) std::uint32_t bell;
  ActivityLine activity;
};

struct ConnectionWords {
  alignas(kLineBytes) std::uint64_t tail;
  alignas(kLineBytes) std::uint64_t head;
};

// Byte offsets of everything in a segment.
struct SegmentLayout {
  explicit SegmentLayout(const SegmentShape& shape) : s(shape) {
    const auto ranks = static_cast<std::size_t>(s.ranks);
    flags_each = round_up(ranks, kLineBytes);
    parked = kLineBytes;
    faulted = parked + flags_each;
    words = round_up(faulted + flags_each, kSegmentPage);
    words_each = round_up(sizeof(RankWords), kSegmentPage);
    signals = words + ranks * words_each;
    signals_each = ranks * kSignals * sizeof(std::uint64_t);
    traces = round_up(signals + ranks * signals_each, kSegmentPage);
    trace_each = round_up(sizeof(TraceRing), kSegmentPage);
    staging = traces + ranks * trace_each;
    connections = staging + ranks * s.staging_bytes;
    records = round_up(sizeof(ConnectionWords), kLineBytes);
    used = records + s.slot_count * sizeof(CallRecord);
    slots = round_up(used + s.slot_count * sizeof(std::uint64_t), kSegmentPage);
    connection_each = slots + round_up(s.slot_count * s.slot_bytes, kSegmentPage);
    total = connections + ranks * ranks * HostSegment::kLanes * connection_each;
  }
  std::size_t connection(int from, int to, int lane) const {
    const std::size_t pair = static_cast<std::size_t>(to) * s.ranks + from;
    return connections + (pair * HostSegment::kLanes + lane) * connection_each;
  }

  RankWords* own_words(std::byte* base, int index) const {
    return reinterpret_cast<RankWords*>(base + words +
                                        static_cast<std::size_t>(index) * words_each);
  }
  // The words that rank `index` publishes, in a mapping that begins at `base`.
  PeerPort words_of(std::byte* base, int index) const {
    const auto i = static_cast<std::size_t>(index);
    RankWords* const own = own_words(base, index);
    PeerPort port{};
    port.announcements = own->announcements;
    port.beside = own->beside;
    port.steps = &own->steps;
    port.progress = &own->progress;
    port.fault = &own->fault;
    port.group = &own->group;
    port.identity = &own->identity;
    port.bell = &own->bell;
    port.signals = reinterpret_cast<std::uint64_t*>(base + signals + i * signals_each);
    port.trace = reinterpret_cast<TraceRing*>(base + traces + i * trace_each);
    port.parked = reinterpret_cast<std::uint8_t*>(base + parked + i);
    port.faulted = reinterpret_cast<std::uint8_t*>(base + faulted + i);
    return port;
  }

  SegmentShape s;
  std::size_t flags_each, parked, faulted, words, words_each, signals, signals_each, traces,
      trace_each, staging, connections, records, used, slots, connection_each, total;
};

// SegmentView: read-only view of a communicator's shared memory, for a process outside of it.
//
// Guarantees: it writes nothing and neither stops nor slows a rank. The memory stays readable as
// long as the view exists, even if all ranks have ended. Each word is read whole, but several words
// together are not a consistent snapshot.
class SegmentView {
 public:
  // Opens a memory file by path (/proc/PID/fd/N). Fails if its layout is not this build's.
  static Result<SegmentView> open(const std::string& path);
  SegmentView(SegmentView&& other) noexcept;
  SegmentView& operator=(SegmentView&&) = delete;
  ~SegmentView();

  int ranks() const { return ranks_; }
  // Only the words are set; staging, arena and process are not. Must not be written.
  PeerPort port(int index) const;
  const ActivityLine& activity(int index) const;
  const WatchedMessages* messages() const;  // null: not watched

 private:
  SegmentView(void* data, std::size_t bytes, int ranks, bool watched)
      : data_(data), bytes_(bytes), ranks_(ranks), watched_(watched) {}

  void* data_;
  std::size_t bytes_;
  int ranks_;
  bool watched_;
};

// segments_of(): finds the shared memory of a process's communicators, for tools (rondo ps, rondo
// trace).
//
// Guarantees: it reads only /proc; the process does not notice. Cost: a few system calls per open
// descriptor of the process.
//
// Paths (/proc/PID/fd/N) of the process's HostSegments, each once, in the order of descriptors. Of
// a process that is watched (collectives/watch) only those of the watch, which show the same ranks.
// Errors: there is no such process, or it belongs to another user.
Result<std::vector<std::string>> segments_of(int pid);

}  // namespace rondo::shm
