// SPDX-License-Identifier: Apache-2.0
// The judge: makes every rank's input from a hash of (seed, rank, index), and checks results.
// Written for clarity and independence; it shares no code with the library under test.
//
// Cost: kExact about 1 ns per element and rank, the others about 30 ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/recipe.h"

namespace rondo::bench {

// Writes elements [first, first + count) of `rank`'s input.
void fill(const Recipe& recipe, int rank, std::size_t first, std::size_t count, void* out);

// Number of wrong elements at `got`. They must equal the input of rank `source` from `first` on, or
// with source -1 the reduction over all ranks. `example` receives a sentence on the first wrong
// one.
std::size_t count_wrong(const Recipe& recipe, int source, std::size_t first, std::size_t count,
                        const void* got, std::string* example);

}  // namespace rondo::bench
