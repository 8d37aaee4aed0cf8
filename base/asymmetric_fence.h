// Dekker's handshake with all of its cost on one side.
//
// Two threads store a word each and then load the other's; at least one must see the other's store.
// Usually both pay for a full barrier. Here the frequent side stores with store_before_loads(), and
// the rare side calls heavy_fence() between its store and its load: a barrier in every thread of
// this process (membarrier, Linux 4.14). Where the system has none, store_before_loads() is a full
// barrier itself. Loads and the rare side's stores must be seq_cst.
// Cost: light, a plain store; heavy, microseconds.
#pragma once

#include <atomic>

namespace rondo {

// Set once, before anything uses the fences; never cleared.
extern std::atomic<bool> fences_are_light;
// To be called before the first use, as often as one likes.
void prepare_fences();

// word: a std::atomic or std::atomic_ref.
template <class Word, class T>
void store_before_loads(Word&& word, T value) {
  if (fences_are_light.load(std::memory_order_relaxed)) {
    word.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // not past it by the compiler either
  } else {
    word.store(value, std::memory_order_seq_cst);
  }
}

void heavy_fence();

}  // namespace rondo
