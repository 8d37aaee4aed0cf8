// SPDX-License-Identifier: Apache-2.0
// WatchedComm: the record of one rank of another library's communicator, in the same shared memory
// words as a rank of Rondo (HostSegment, TraceRing), so that rondo ps, rondo trace and metrics read
// both alike.
//
// A call or message is an operation: entered, enqueued, in its kernel, ended. Collectives are
// numbered from 1, equal on all ranks. The end of an operation is the last end of its kernels'
// channels and of its network transfers; that of a collective ends all earlier ones, because the
// operations of a communicator run in order.
// Guarantees: the functions for events do not allocate, wait for no thread but another one that
// enters an operation, and make no system call; they ignore operations that are no longer known
// (kOperations newer ones have been entered). look() is of one thread. Cost: about 100 KiB, 60 KiB
// more once kOperations have been entered, and 264 KiB more with a record of calls; an event is a
// few stores, entering an operation about 50 ns.
//
//   const std::uint64_t operation = comm.enter(foreign_call(...));
//   comm.enqueue(operation, 2);
//   comm.begin_kernel(operation);    // on the network's thread, as the next
//   comm.end_kernel(operation);
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/types.h"
#include "collectives/status/inspect.h"
#include "kernels/host/call_recorder.h"
#include "transport/shm/host_segment.h"

namespace rondo::watch {

// What the communicators of a process have in common: the order of their calls, and which groups
// of calls (ncclGroupStart, ncclGroupEnd) have ended.
class CallOrder {
 public:
  std::uint64_t next() { return calls_.fetch_add(1, std::memory_order_relaxed) + 1; }
  std::uint32_t begin_group() { return begun_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void end_group(std::uint32_t group) {
    newest_[group % kKept].store(group, std::memory_order_release);
  }
  bool has_ended(std::uint32_t group) const {
    return group != 0 && newest_[group % kKept].load(std::memory_order_acquire) >= group;
  }

 private:
  static constexpr std::uint32_t kKept = 1024;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint32_t> begun_{0};
  std::array<std::atomic<std::uint32_t>, kKept> newest_{};  // that has ended, by remainder
};

class WatchedComm {
 public:
  static constexpr std::uint64_t kOperations = 1024;
  // The bits of an operation's number that name it.
  static constexpr std::uint64_t kNumber = (std::uint64_t{1} << 30) - 1;

  struct About {
    std::uint64_t hash = 0;  // equal on all ranks
    std::string name{};
    int hosts = 0;               // 0: not known
    int ranks = 0, rank = -1;    // 0, -1: not known before the first event (versions 1 to 3)
    bool has_record = true;      // of the newest calls, for rondo trace
    CallOrder* order = nullptr;  // of the process; lives as long
  };
  static Result<std::unique_ptr<WatchedComm>> open(const About& about);

  bool has_record() const { return recorder_.records(); }
  bool is_known() const { return known_.load(std::memory_order_acquire); }
  // Once, from the first event, where open() had no rank.
  void identify(std::uint64_t hash, const char* name, int rank);
  std::uint64_t hash() const { return hash_; }
  int rank() const;
  bool is_of_one_host() const { return hosts_ == 1; }
  RankWordsView words() const {
    return {segment_->port(0), segment_->activity(0), segment_->messages()};
  }

  // Its number. peer: of a message. group: of calls (CallOrder), to which its call of the API
  // belongs; an operation that has no event of its own a second after the group's end is unseen.
  std::uint64_t enter(const CallRecord& call, int peer = -1, std::uint32_t group = 0);
  // True once: its events follow. False: it has been enqueued before, or is not known.
  // channels: of its kernel; 0: its kernel has no events.
  bool enqueue(std::uint64_t operation, unsigned channels);
  // It is on its stream, and no event tells when it runs: it has ended once a later one has begun.
  void enqueue_unseen(std::uint64_t operation);
  void show_graphs();  // calls of a CUDA graph are made
  void match_by_tags() { by_tags_.store(true, std::memory_order_relaxed); }  // of its messages
  void end_if_silent(std::uint64_t operation);  // it is enqueued, and has no events
  void begin_kernel(std::uint64_t operation);
  void end_kernel(std::uint64_t operation);
  void end(std::uint64_t operation);

  // A transfer of an operation over the network. -1: too many at a time; it is not followed.
  int begin_transfer(std::uint64_t operation, int peer, bool is_send);
  void show_step(int transfer, std::uint32_t step);
  void show_state(int transfer, int state);  // an abi::State
  void end_transfer(int transfer, std::uint64_t operation);

  // Publishes what it waits for. now_ns(): of base/seconds.h.
  void look(std::int64_t now_ns);
  void leave();

 private:
  struct Operation {
    std::atomic<std::uint64_t> number{0};
    std::atomic<std::uint64_t> sequence{0};  // of a collective; 0: a message
    std::atomic<std::uint64_t> trace{0};
    CallRecord call;
    std::atomic<std::int32_t> peer{-1};
    std::atomic<std::uint32_t> channels{0}, kernels_begun{0}, kernels_ended{0}, transfers{0};
    std::atomic<std::int32_t> phase{shm::kIdle};
    std::atomic<std::uint32_t> group{0};  // 0: none
    std::atomic<std::uint64_t> order{0};  // among the calls of the process
  };
  struct Transfer {
    std::atomic<std::uint64_t> operation{0};  // 0: free
    std::atomic<std::int32_t> peer{-1}, state{-1};
    std::atomic<std::uint32_t> step{0};
    std::atomic<bool> is_send{false};
  };
  static constexpr int kTransfers = 256;

  // In pages that are allocated as operations first use them: all bits 0 is one without a number.
  struct Unmap {
    void operator()(Operation* operations) const;
  };
  using Operations = std::unique_ptr<Operation[], Unmap>;
  static Operations map_operations();

  WatchedComm(std::shared_ptr<shm::HostSegment> segment, Operations operations);
  void set_up_record(bool has_record);
  Operation* find(std::uint64_t number);
  void announce(std::uint64_t sequence, const CallRecord& call);
  void end_if_done(Operation& operation);
  Operation* oldest_open(std::int64_t now_ns);
  void end_unseen(std::uint64_t newest);
  bool becomes_unseen(Operation& operation, std::int64_t now_ns);
  shm::WatchedMessages::Counts* counts_of(const Operation& operation);
  void count_end(const Operation& operation);
  void show_network(std::uint64_t operation);
  bool seems_ended(const Operation& operation, std::int64_t quiet_ns) const;

  const std::shared_ptr<shm::HostSegment> segment_;
  const PeerPort port_;
  shm::ActivityLine& activity_;
  std::uint64_t hash_ = 0;
  int hosts_ = 0;
  CallOrder* order_ = nullptr;
  std::atomic<bool> known_{false};
  host::CallRecorder recorder_;

  std::atomic_flag entering_ = ATOMIC_FLAG_INIT;  // guards the next two and the recorder
  std::atomic<std::uint64_t> newest_{0};
  std::uint64_t sequence_ = 0;
  const Operations operations_;
  std::array<Transfer, kTransfers> transfers_;
  std::atomic<unsigned> next_transfer_{0};
  std::atomic<std::uint64_t> moves_{0};  // events by which an operation moves
  std::atomic<bool> by_tags_{false};     // messages that have ended are not counted

  // Of look().
  std::uint64_t oldest_ = 1, waited_in_ = 0, seen_moves_ = 0;
  std::int64_t quiet_since_ns_ = 0;
  std::uint64_t silent_ = 0;  // an operation without an event of its own
  std::int64_t silent_since_ns_ = 0;
};

}  // namespace rondo::watch
