// SPDX-License-Identifier: Apache-2.0
// Asymmetric fences: Dekker's handshake with all of its cost on one side.
//
// Two threads each store their own word, then load the other's. At least one of them must see the
// other's store. Usually both execute a full barrier. Here the frequent side stores with
// store_before_loads(). The rare side calls heavy_fence() between its store and its load: a barrier
// in every thread of this process (membarrier, Linux 4.14). Without membarrier,
// store_before_loads() is a full barrier itself. Loads and the rare side's stores must be seq_cst.
// Cost: store_before_loads(), a plain store; heavy_fence(), microseconds.
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

}  // namespace rondo
