// SPDX-License-Identifier: Apache-2.0
// Asymmetric fences: Dekker's handshake with all of its cost on one side.
//
// Two threads each store their own word, then load the other's. At least one of them must see the
// other's store. Usually both execute a full barrier. Here the frequent side stores with
// store_before_loads(). The rare side calls heavy_fence() between its store and its load: a barrier
// in every thread of this process (membarrier, Linux 4.14). Without membarrier,
// store_before_loads() is a full barrier itself. Loads and the rare side's stores must be seq_cst.
//
// Ranks of a host do the same across processes, if all of them are reached (base/doorbell.h,
// agreed_facts.h): the rare side calls fence_host(), a barrier in every thread of every process
// that has called prepare_host_fences() (Linux 4.16).
// Cost: store_before_loads(), a plain store; the fences, microseconds and an interrupt of each core
// that runs such a thread. The first prepare_... of a process with threads takes some 10 ms each.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace rondo {

// Set once, before anything uses the fences; never cleared.
inline std::atomic<bool> fences_are_light{false};

inline bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }
// Call it before the first use. More calls do no harm.
inline void prepare_fences() {
  if (fences_are_light.load(std::memory_order_relaxed)) return;
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
      membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
    fences_are_light.store(true, std::memory_order_seq_cst);
}

// word: a std::atomic or std::atomic_ref.
template <class Word, class T>
void store_before_loads(Word&& word, T value) {
  if (fences_are_light.load(std::memory_order_relaxed)) {
    word.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not reorder either
  } else {
    word.store(value, std::memory_order_seq_cst);
  }
}

inline void heavy_fence() {
  if (!fences_are_light.load(std::memory_order_seq_cst)) return;  // store_before_loads() is one
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A forked child may have lost the registration. If it has started threads, it needs it again.
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

// False: it failed, for example by a system call filter that came later.
inline bool fence_host() { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }
// Registers this process, each time that a communicator is made: a forked child may have lost it.
// True: fence_host() reaches this process, and works in it.
inline bool prepare_host_fences() {
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && fence_host();
}

}  // namespace rondo
