// SPDX-License-Identifier: Apache-2.0
// Recall: frees the GPU memory of an idle communicator, so that another one of the same GPUs can
// have it. The idle one takes memory again with its next call (device_memory.h).
//
// Each process has mapped memory of others, so all of them must agree. One proposes, by a word of
// their segment. The watch thread of each process agrees if its calls have finished, none is
// captured and none is being made; else it withdraws the proposal. A call that begins meanwhile
// withdraws it too, so no call ever waits for a proposal. Once all have agreed, and all have made
// the same calls, the proposer decides. From then on each process drops its memory as soon as it
// sees that.
//
// A communicator that needs memory for the first time proposes this for all others of its GPU that
// have never lent theirs: programs that use their communicators in turn pay for it once. If an
// allocation fails, it also asks those that have. Guarantees: it asks all of them at once and waits
// at most kPatience in all, and once for a process that does not answer; nothing is freed that a
// kernel, a graph or data under way uses. Cost: a flag that each call reads. A recall takes two
// ticks of the watches (20 ms each); the next call, what ncclCommResume takes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "collectives/gpu/agree/control_segment.h"
#include "collectives/gpu/memory/device_memory.h"

namespace rondo::gpu {

class Recall : public std::enable_shared_from_this<Recall> {
 public:
  static constexpr auto kPatience = std::chrono::milliseconds(2000);
  // Whether no call of this process is unfinished, captured or being made. If so, runs `then`, and
  // no call begins meanwhile; returns its result.
  using Idle = std::function<bool(const std::function<bool()>& then)>;

  Recall(std::shared_ptr<ControlSegment> segment, int process, int device, DeviceMemory& memory);
  ~Recall();
  Recall(const Recall&) = delete;
  Recall& operator=(const Recall&) = delete;

  // From begin() to end() the communicator may lend its memory, and asks others for theirs.
  void begin(Idle idle);
  void end();

  // The watch thread, now and then: agrees to proposals, and drops what is decided.
  void look();
  // Drops the memory if that is decided. For the watch thread, before it restores memory.
  // withdraws: unless it is decided; before ncclCommSuspend, which leaves the memory dropped.
  void settle(bool withdraws = false);
  // Before each call, unless is_whole(), while Idle can not run: withdraws a proposal, or restores
  // the memory.
  bool is_whole() const { return is_whole_.load(std::memory_order_relaxed); }
  Status take_again(const net::Deadline& deadline);

 private:
  // A proposal that this communicator lends its memory. own: this process has made it.
  struct Proposal {
    std::uint64_t attempt, before;  // before: how often this process had dropped memory
    bool own, decided;
  };
  enum class Answer : std::uint8_t { kNone, kGave, kKept };  // kNone: so far

  bool make_room(bool urgent);
  std::uint64_t bytes_held();  // of this process, without what is lent; 0 after end()
  std::optional<Proposal> propose();
  Answer answer_to(Proposal& proposal);
  void give_up(const Proposal& proposal);
  void answer(std::uint64_t attempt);
  bool agree(std::uint64_t attempt);
  bool all_have_made_the_same_calls() const;
  bool all_have_dropped(std::uint64_t before) const;

  const std::uint32_t made_in_;  // fork_generation()
  const std::shared_ptr<ControlSegment> segment_;
  const int process_, device_;
  DeviceMemory& memory_;   // not after end()
  std::mutex idle_mutex_;  // guards idle_ and answered_
  Idle idle_;
  std::uint64_t answered_ = 0;  // newest proposal that this process has answered
  std::mutex mutex_;            // guards agreed_
  std::uint64_t agreed_ = 0;    // the proposal to which this process has agreed; 0: none is open
  std::atomic<bool> is_whole_{true};    // no agreement is open, and no memory is dropped
  std::atomic<bool> has_grown_{false};  // has needed more than it has from its init
  std::atomic<bool> keeps_{false};      // has lent its memory before, or could not in time
};

}  // namespace rondo::gpu
