// SPDX-License-Identifier: Apache-2.0
// HostedWords: the words between the stream and the thread of a HostProxy, and their order.
//
//   stream   CALL_SLOT, [copy in] READY j, wait for DONE j, [copy out]
//   thread   wait for READY j, the step on the host, DONE j
// Both orders are defined here, without CUDA and threads, so that the explorer in tests/ runs them
// in every interleaving. Guarantees: a step's input is present before the thread reads it, and its
// output before it is copied out; a half of staging is written again only after it was read; the
// words are 0 again before the stream's next call writes them. Cost: three memory operations per
// step.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace rondo::gpu {

struct HostedWords {                    // pinned; 0 between calls
  alignas(64) std::uint32_t call_slot;  // number of the call's descriptor + 1
  alignas(64) std::uint32_t ready;      // steps whose input is present
  alignas(64) std::uint32_t done;       // steps whose output is present
  alignas(64) std::uint64_t scalar;
};

// Enqueues the steps of a call whose data passes through staging. `on` is a stream: write(word,
// value), wait(word, at_least), copy(step, in). Both words are 0 between calls.
template <class Stream>
Status enqueue_staged_steps(std::uint32_t& ready, std::uint32_t& finished, std::uint32_t steps,
                            Stream&& on) {
  RONDO_CHECK_OK(on.copy(0, true));
  RONDO_CHECK_OK(on.write(ready, 1));
  for (std::uint32_t j = 0; j < steps; ++j) {
    if (j + 1 < steps) {
      // Its half is free: the host thread has done step j - 1, and its output was copied.
      RONDO_CHECK_OK(on.copy(j + 1, true));
      RONDO_CHECK_OK(on.write(ready, j + 2));
    }
    RONDO_CHECK_OK(on.wait(finished, j + 1));
    // From here on the stream waits for nothing.
    if (j + 1 == steps) RONDO_CHECK_OK(on.write(finished, 0));
    RONDO_CHECK_OK(on.copy(j, false));
  }
  return ok_status();
}

// The same for a call that the host executes. slot: of the call, from 1 (HostedWords::call_slot).
template <class Stream>
Status enqueue_steps(HostedWords& words, std::uint32_t slot, std::uint32_t steps, Stream&& on) {
  RONDO_CHECK_OK(on.write(words.call_slot, slot));
  return enqueue_staged_steps(words.ready, words.done, steps, on);
}

// Serves a call whose number has arrived: do_step(j) after the stream's READY, over() before the
// last DONE, idle(turn) while there is nothing to do. False if idle() or do_step() returned false.
template <class A, class Idle, class Step, class Over>
bool serve_steps(HostedWords& words, std::uint32_t steps, Idle&& idle, Step&& do_step,
                 Over&& over) {
  for (std::uint32_t j = 0; j < steps; ++j) {
    for (int turn = 0; A::load_acquire(words.ready) < j + 1; ++turn)
      if (!idle(turn)) return false;
    if (!do_step(j)) return false;
    if (j + 1 == steps) {
      // The stream's next call writes them again, after it has seen the last DONE.
      A::store_release(words.ready, std::uint32_t{0});
      A::store_release(words.call_slot, std::uint32_t{0});
      over();
    }
    A::store_release(words.done, j + 1);
  }
  return true;
}

}  // namespace rondo::gpu
