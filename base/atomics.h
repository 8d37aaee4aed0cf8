// SPDX-License-Identifier: Apache-2.0
// Atomic access to plain words, as a policy class, so that a test can replace the memory model.
//
// Shared structures hold plain integers, which the device and other processes can read. All
// concurrent access to them goes through an Atomics policy. HostAtomics is the real one. The
// explorer in tests/ supplies one with store buffers and runs all interleavings. The data that the
// atomics guard (records, payloads) is accessed by load_plain and store_plain: ordinary accesses,
// which let the explorer check that something orders them.
// A relaxed access is right in three cases; where it is another one, a comment says why:
//   - a load of a word that this thread alone writes (its ends of slots, steps and records);
//   - a hint, whose wrong value costs time and no result (cores, parked flags, counts, times);
//   - a store that a later release store or fence of this thread orders (park(), GroupList, the
//     words of ProgressLine before its count of waits).
// Cost: one instruction each; store_seq_cst is an xchg on x86 (about 5 ns), fence_seq_cst the same.
#pragma once

#include <atomic>
#include <cstdint>

namespace rondo {

struct HostAtomics {
  template <class T>
  static T load_relaxed(const T& word) {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
  }
  template <class T>
  static T load_acquire(const T& word) {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
  }
  template <class T>
  static T load_seq_cst(const T& word) {
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_seq_cst);
  }
  template <class T>
  static void store_relaxed(T& word, T value) {
    std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
  }
  template <class T>
  static void store_release(T& word, T value) {
    std::atomic_ref<T>(word).store(value, std::memory_order_release);
  }
  template <class T>
  static void store_seq_cst(T& word, T value) {
    std::atomic_ref<T>(word).store(value, std::memory_order_seq_cst);
  }
  // Orders every access before it with every access after it, also stores with later loads.
  static void fence_seq_cst() { std::atomic_thread_fence(std::memory_order_seq_cst); }

  // A hint: fetch this word's cache line for writing, because it is written soon.
  template <class T>
  static void prefetch_to_write(T& word) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(word));
#else
    __builtin_prefetch(&word, 1);
#endif
  }

  template <class T>
  static T load_plain(const T& word) {
    return word;
  }
  template <class T>
  static void store_plain(T& word, const T& value) {
    word = value;
  }
};

// The pause of a spin loop: lets the other hardware thread run and saves power.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace rondo
