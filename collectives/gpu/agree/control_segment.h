// SPDX-License-Identifier: Apache-2.0
// ControlSegment: the shared memory file of the processes on one GPU: flags for stream memory
// operations, call slots, call descriptors, message announcements, memory requests.
//
// Every process maps it and registers the mapping with CUDA, so its streams and kernels can access
// it. Each word has a single writer. Flags reset themselves, so plain calls and graph replays can
// be mixed. Cost: pinned memory, 1 MiB per rank up to 4 ranks, 4 to 7 MiB in total for more ranks;
// most of it is for descriptors of captured calls.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "kernels/cuda/shared_args.h"
#include "transport/memory/memory_handle.h"

namespace rondo::gpu {

// A driver's queue holds about 1,000 commands (measured on one H200, driver 13.0). If it is full,
// the next launch blocks inside the driver, where no deadline of Rondo applies. So a process waits
// itself (call_announcements.h) once it is this many commands ahead of another one. Calls by
// kernels may fill the queue: the kernel at its head ends by an abort or a deadline. Streams that
// wait for words leave half of it to the program.
inline constexpr std::uint32_t kCommandsAhead = 960, kCommandsOfWaitsAhead = 512;
// Commands of a call by a kernel: the launch, and the record of an event behind it.
inline constexpr std::uint32_t kCommandsOfKernel = 2;
// Number of calls that a process may be ahead whatever they take: a thread with several ranks posts
// as many of one rank before those of the next. Also of calls that the host does for a stream.
inline constexpr std::uint32_t kCallsAhead = 64;

// Flags that count the steps of one call and are 0 between calls. Streams wait for "at least".
inline constexpr std::uint32_t kReleased = 0x7fffffff;  // ends all waits: abort
// Flags of message slots. Streams wait for bits.
inline constexpr std::uint32_t kEmpty = 1, kFull = 2, kReleasedSlot = 7;

inline constexpr std::uint32_t kPlainDescriptors = 512;  // calls that a process may be ahead
static_assert(kPlainDescriptors >= kCommandsAhead / kCommandsOfKernel);
inline constexpr int kMessageSlots = 2;
inline constexpr int kMessageDepth = 32;  // messages whose sizes are compared, per pair

// Words between a process and the leader's. `ready`: steps that the process has prepared; in the
// leader's own entry: 1 while its stream is in a call. `done`: steps that the leader has done for
// it.
struct ProcessLines {
  alignas(64) std::uint32_t ready;
  alignas(64) std::uint32_t done;
  alignas(64) std::uint32_t left;                // 1: the process has left the team
  alignas(64) std::uint64_t announced;           // newest call that its host has announced
  alignas(64) std::uint64_t suspended, resumed;  // number of times its memory was dropped, restored
  alignas(64) std::uint64_t lends;               // the proposal to which it agrees (recall.h)
};

// Messages from one rank to another: slots, and the piece (from 1) that each side waits to move.
struct alignas(64) MessagePair {
  std::uint32_t slot[kMessageSlots];
  std::uint32_t sending, receiving;
};

// A message as one side announced it. `number` is written last.
struct alignas(32) MessageNote {
  std::uint64_t number;  // from 1, per pair
  CallRecord record;
};

// A process's memory request to another one and the answer (process_meeting.h), or the memory that
// a rank offers for connections (shared_connections.cc).
struct alignas(64) MemoryNote {
  // Requests for: the leader's staging; slots for messages; a rank's memory for connections; a
  // lazy block of it; that the other process maps a block, or unmaps it, or restores its suspended
  // memory.
  enum Kind : std::uint32_t {
    kNothing,
    kStaging,
    kSlots,
    kConnections,
    kLazyBlock,
    kMap,
    kUnmap,
    kRestore
  };
  struct Question {
    Kind kind;
    std::uint32_t what = 0;     // kStaging: the place; kSlots: sender * ranks + receiver;
                                // kLazyBlock: block * ranks + rank; kRestore: the round
    std::uint64_t address = 0;  // kUnmap: as the answer to kMap gave it
  };
  template <class Outcome>
  void put(const Outcome& outcome) {  // truncates an error's text to fit
    status = static_cast<std::uint32_t>(outcome.code());
    if (!outcome.ok()) text[outcome.error().text.copy(text, sizeof(text) - 1)] = '\0';
  }
  PlainHandle handle;
  std::uint64_t address;
  Kind kind;
  std::uint32_t what, status;
  char text[256];
};

class ControlSegment {
 public:
  struct Shape {
    int ranks, processes;
    std::uint64_t staging_bytes;  // per rank; chosen by the leader
  };
  static Result<std::unique_ptr<ControlSegment>> create(const Shape& shape);
  static Result<std::unique_ptr<ControlSegment>> open(int fd, int ranks, int processes);
  ControlSegment(const ControlSegment&) = delete;
  ControlSegment& operator=(const ControlSegment&) = delete;

  int fd() const { return fd_.get(); }
  // The communicator's ranks that this segment serves, ascending, if it does not serve all. Every
  // process calls it before it accesses anything of a rank.
  void set_members(std::vector<int> ranks) { members_ = std::move(ranks); }
  int rank_at(int place) const {
    return members_.empty() ? place : members_[static_cast<std::size_t>(place)];
  }

  int ranks() const { return ranks_; }
  int processes() const { return processes_; }
  std::uint64_t staging_bytes() const;
  std::uint32_t depth() const { return depth_; }  // descriptors per rank; the plain ones are first

  cuda::DeviceWords& words() const;
  ProcessLines& process(int p) const {
    assert(p >= 0 && p < processes_);
    return at<ProcessLines>(processes_at_)[p];
  }
  cuda::CallSlot& call_slot(int r) const {
    assert(r >= 0 && r < ranks_);
    return at<cuda::CallSlot>(call_slots_at_)[r];
  }
  cuda::CallDescriptor& descriptor(int r, std::uint32_t index) const {
    assert(r >= 0 && r < ranks_ && index < depth_);
    return at<cuda::CallDescriptor>(descriptors_at_)[static_cast<std::size_t>(r) * depth_ + index];
  }
  MessagePair& pair(int from, int to) const {
    assert(from >= 0 && from < ranks_ && to >= 0 && to < ranks_);
    return at<MessagePair>(pairs_at_)[from * ranks_ + to];
  }
  // side 0: the sender's, 1: the receiver's.
  MessageNote& note(int from, int to, int side, std::uint64_t number) const {
    assert((side == 0 || side == 1) && number > 0);
    const std::size_t pair = static_cast<std::size_t>(from) * ranks_ + to;
    return at<MessageNote>(notes_at_)[(pair * 2 + side) * kMessageDepth + number % kMessageDepth];
  }
  // From one process to another. One per pair, so a late answer cannot harm another request.
  MemoryNote& question(int asker, int asked) const {
    assert(asker >= 0 && asker < processes_ && asked >= 0 && asked < processes_);
    return at<MemoryNote>(questions_at_)[asker * processes_ + asked];
  }
  // offer(): memory for connections that the process of rank r offers. refused(): whether the
  // process of `rank` could not map the memory of rank `offered` (shared_connections.cc).
  MemoryNote& offer(int r) const { return at<MemoryNote>(offers_at_)[place_of(r)]; }
  std::uint64_t& recall() const { return *at<std::uint64_t>(recall_at_); }  // recall.h
  std::uint8_t& refused(int rank, int offered) const {
    return at<std::uint8_t>(refused_at_)[place_of(rank) * ranks_ + place_of(offered)];
  }

  // Address of an object of the segment for streams and kernels of this process.
  template <class T>
  T* on_device(T& what) const {
    return reinterpret_cast<T*>(device_ + (reinterpret_cast<std::byte*>(&what) - memory_.get()));
  }

 private:
  ControlSegment(int ranks, int processes);
  Status map(Fd fd);
  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(memory_.get() + offset);
  }

  int place_of(int rank) const {
    const auto at = std::lower_bound(members_.begin(), members_.end(), rank);
    return members_.empty() ? rank : static_cast<int>(at - members_.begin());
  }

  const int ranks_, processes_;
  std::vector<int> members_;
  const std::uint32_t depth_;
  std::size_t processes_at_, call_slots_at_, descriptors_at_, pairs_at_, notes_at_, questions_at_,
      offers_at_, refused_at_, recall_at_;
  std::size_t bytes_;
  Fd fd_;
  std::shared_ptr<std::byte> memory_;
  std::byte* device_ = nullptr;
};

}  // namespace rondo::gpu
