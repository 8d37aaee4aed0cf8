// SPDX-License-Identifier: Apache-2.0
// SimAtomics: the Atomics policy whose memory is the explorer's Machine.
//
//   SendEnd<SimAtomics> end(connection);   // the real code, under the explorer
#pragma once

#include <cstring>

#include "tests/explorer/machine.h"

namespace rondo::explorer {

// How producers store what wakes others (base/doorbell.h).
enum class Wakes : std::uint8_t {
  kWithBarrier,
  kLight,
  kUnfenced,  // light, though those who sleep do not fence them: an error
};

struct SimAtomics {
  static inline Machine* machine = nullptr;  // the machine of the running exploration

  static bool fence_producers() {
    machine->heavy_fence();
    return true;
  }

  template <class T>
  static T load_relaxed(const T& word) {
    return static_cast<T>(machine->load(&word, sizeof(T), Order::kRelaxed));
  }
  template <class T>
  static T load_acquire(const T& word) {
    return static_cast<T>(machine->load(&word, sizeof(T), Order::kAcquire));
  }
  template <class T>
  static T load_seq_cst(const T& word) {
    return static_cast<T>(machine->load(&word, sizeof(T), Order::kSeqCst));
  }
  template <class T>
  static void store_relaxed(T& word, T value) {
    machine->store(&word, sizeof(T), value, Order::kRelaxed);
  }
  template <class T>
  static void store_release(T& word, T value) {
    machine->store(&word, sizeof(T), value, Order::kRelease);
  }
  template <class T>
  static void store_seq_cst(T& word, T value) {
    machine->store(&word, sizeof(T), value, Order::kSeqCst);
  }
  static void fence_seq_cst() { machine->fence(); }

  template <class T>
  static T load_plain(const T& word) {
    machine->read_plain(&word, sizeof(T));
    return word;
  }
  template <class T>
  static void store_plain(T& word, const T& value) {
    machine->write_plain(&word);
    word = value;
  }

  // copy_bytes() with `stream`: non-temporal stores and a fence (reduce_kernels.h).
  template <class T>
  static void store_past(T& word, const T& value) {
    machine->write_past(&word);
    word = value;
    machine->fence_past();
  }

  template <class T>
  static void prefetch_to_write(T&) {}

  static void wait(std::uint32_t& word, std::uint32_t expected, std::int64_t) {
    machine->wait(word, expected);
  }
  static void wake(std::uint32_t& word) { machine->wake(word); }
  static void increment(std::uint32_t& word) { machine->increment(word); }
  static void relax() {}
  static void yield() {}
  static std::int64_t now() { return 0; }
  static std::uint32_t core() { return 0; }
};

}  // namespace rondo::explorer
