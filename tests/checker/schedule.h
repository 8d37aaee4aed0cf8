// SPDX-License-Identifier: Apache-2.0
// Schedule: the order in which the checker runs threads.
//
// Without a seed, every thread in turn runs as far as it can. With a seed, threads are drawn at
// random and run for a random number of steps; equal seeds give equal runs. A run ends when all
// threads have ended, an error is found, or all threads are blocked. The last is a deadlock; the
// report lists which thread waits for which.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/checker/expressions.h"

namespace rondo::check {

enum class Turn { kMoved, kBlocked, kEnded };

// step(thread) tries one verb; why(thread) returns what a blocked thread waits for.
template <class Step, class Why>
void run_schedule(int threads, std::optional<std::uint64_t> seed, Witness& witness, Step&& step,
                  Why&& why) {
  std::mt19937_64 random(seed.value_or(0));
  std::vector<int> alive(threads);
  for (int t = 0; t < threads; ++t) alive[t] = t;
  std::size_t next = 0, blocked = 0;
  while (!alive.empty() && witness.verdict.ok()) {
    if (blocked == alive.size()) {
      std::string text = "deadlock: ";
      for (std::size_t i = 0; i < alive.size() && i < 16; ++i)
        text += (i == 0 ? "" : "; ") + witness.names[alive[i]] + " " + why(alive[i]);
      witness.verdict.report(text);
      return;
    }
    if (seed && blocked == 0) next = random() % alive.size();
    if (next >= alive.size()) next = 0;
    Turn turn = Turn::kBlocked;
    bool moved = false;
    for (std::uint64_t budget = seed ? 1 + random() % 8 : ~std::uint64_t{0}; budget > 0; --budget) {
      turn = step(alive[next]);
      if (turn != Turn::kMoved || !witness.verdict.ok()) break;
      moved = true;
    }
    blocked = moved || turn == Turn::kEnded ? 0 : blocked + 1;
    if (turn == Turn::kEnded) {
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(next));
    } else {
      ++next;
    }
  }
}

}  // namespace rondo::check
