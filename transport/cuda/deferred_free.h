// Deferred frees: memory of Rondo's own goes back to the driver only while no work of any
// communicator of this process is unfinished.
//
// cudaFree, cudaFreeHost and cudaHostUnregister wait for all work of their device, of any library.
// So a communicator that is destroyed while a kernel of another one spins would wait for that
// kernel. Therefore code that enqueues work marks that (EnqueueFlag) and reports when the work has
// finished (UnfinishedWork), and code that frees passes a function (free_when_idle). The function
// runs at once if nothing is being enqueued and all work has finished. Otherwise the next
// free_deferred() runs it: when the next communicator is destroyed (perhaps the one whose kernel
// spins), before the next one is made, and in ncclMemAlloc and ncclMemFree. Guarantees: nothing is
// freed while registered work uses it. Work that is enqueued meanwhile waits for the free, at most
// a second. A free waits only for the program's own work, as any cudaFree does. A forked child
// frees nothing. Any thread. Cost: for a free, one event query per device and communicator; for a
// call, two atomic additions to a word of its own.
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

// What one owner has enqueued. Unregistered by the destructor.
class UnfinishedWork {
 public:
  UnfinishedWork() = default;
  ~UnfinishedWork();
  UnfinishedWork(const UnfinishedWork&) = delete;
  UnfinishedWork& operator=(const UnfinishedWork&) = delete;

  // Asked from any thread until the end of this object.
  void watch(std::function<bool()> is_over);
  // The owner goes, its work does not yet: what `take` returns is asked until it is over, and this
  // object is not asked any more. `take` is called while nobody asks.
  void leave(const std::function<std::function<bool()>()>& take) noexcept;
};

// Says of one owner that work is being put on streams: what is on them already may not yet count as
// unfinished.
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

void hand_over(std::function<void()> free);  // what free_when_idle() guards

// free: a copyable function object. Where there is no memory to note it, it never runs.
template <class Free>
void free_when_idle(Free&& free) noexcept {
  (void)guarded("freeing memory of a GPU", [&] {
    hand_over(std::forward<Free>(free));
    return ok_status();
  }).ok();
}

// Frees what is deferred, if all work finishes within `patient_seconds`. To be called by threads
// that may join those of other communicators.
void free_deferred(double patient_seconds = 0) noexcept;
// What waits.
std::size_t deferred_frees();

}  // namespace rondo::gpu
