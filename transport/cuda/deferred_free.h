// SPDX-License-Identifier: Apache-2.0
// Deferred frees: Rondo's own memory is returned to the driver only while no communicator of this
// process has unfinished work.
//
// cudaFree, cudaFreeHost and cudaHostUnregister wait for all work of their device, of any library.
// So a communicator that is destroyed while a kernel of another one spins would wait for that
// kernel. Therefore code that enqueues work marks that (EnqueueFlag) and reports when the work has
// finished (UnfinishedWork), and code that frees passes a function (free_when_idle). The function
// runs at once if nothing is being enqueued and all work has finished. Otherwise a thread looks
// every 20 ms whether all work has finished, and runs it then. free_deferred() does not wait for
// that thread's next look: when a communicator is destroyed (perhaps the one whose kernel spins),
// before the next one is made, and in ncclMemAlloc and ncclMemFree. Guarantees: nothing is freed
// while registered work uses it. Work that is enqueued during a free waits for it, at most one
// second. A free waits only for the program's own work, as any cudaFree does. A forked child frees
// nothing. Not guaranteed: a time. A process that has unfinished work at every look frees nothing;
// memory that the driver unmaps without waiting needs no deferral (MemoryRegistry::unmap()). For
// any thread. Cost: a free is one event query per device and communicator; a call is two atomic
// additions to a word of the calling rank; a thread, only while frees wait.
//
//   work_.watch([this] { return newest_launch_.is_over(); });
//   const EnqueueFlag::Scope enqueues(flag_);
//   free_when_idle([at] { gpu_api()->free_host(at); });
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>

#include "base/guard.h"
#include "base/result.h"

namespace rondo::gpu {

// The enqueued work of one owner. The destructor unregisters it.
class UnfinishedWork {
 public:
  UnfinishedWork() = default;
  ~UnfinishedWork();
  UnfinishedWork(const UnfinishedWork&) = delete;
  UnfinishedWork& operator=(const UnfinishedWork&) = delete;

  // is_over is called from any thread, until this object is destroyed.
  void watch(std::function<bool()> is_over);
  // For an owner that ends before its work. The function that `take` returns replaces is_over and
  // is called until it returns true. No thread calls is_over during `take`.
  void leave(const std::function<std::function<bool()>()>& take) noexcept;
};

// Marks that one owner is enqueueing work on streams. While the flag is raised, enqueued work
// possibly does not count as unfinished yet.
class EnqueueFlag {
 public:
  EnqueueFlag();
  ~EnqueueFlag();
  EnqueueFlag(const EnqueueFlag&) = delete;
  EnqueueFlag& operator=(const EnqueueFlag&) = delete;

  class Scope {
   public:
    explicit Scope(EnqueueFlag& flag) : flag_(flag) { flag_.raise(); }
    ~Scope() { flag_.raised_.fetch_sub(1); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    EnqueueFlag& flag_;
  };
  bool is_raised() const { return raised_.load() != 0; }

 private:
  void raise();
  alignas(64) std::atomic<int> raised_{0};
};

void hand_over(std::function<void()> free);  // used by free_when_idle()

// free: a copyable function object. If there is no memory to store it, it never runs.
template <class Free>
void free_when_idle(Free&& free) noexcept {
  (void)guarded("freeing memory of a GPU", [&] {
    hand_over(std::forward<Free>(free));
    return ok_status();
  }).ok();
}

// Runs the deferred frees if all work finishes within `patient_seconds`. If another thread runs
// them, waits for it, at most one second. Only for threads that can join threads of other
// communicators.
void free_deferred(double patient_seconds = 0) noexcept;
// Number of deferred frees that have not finished.
std::size_t deferred_frees();

}  // namespace rondo::gpu
