// SPDX-License-Identifier: Apache-2.0
// Room: the multiprocessors of one emulated device (those of an sm_90), and the CTAs resident on
// them.
//
// A CTA becomes resident only where threads, CTA slots, registers and shared memory suffice; the
// seed chooses the multiprocessor, and which CTA of a grid goes first.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/simt/machine/grid.h"
#include "tests/simt/machine/random.h"

namespace rondo::simt {

struct DeviceLimits {
  int multiprocessors = 132;
  unsigned threads_per_multiprocessor = 2048;
  unsigned ctas_per_multiprocessor = 32;
  unsigned threads_per_cta = 1024;
  unsigned registers_per_multiprocessor = 64 << 10;
  std::size_t shared_per_multiprocessor = 228 << 10;
  std::size_t shared_per_cta = 227 << 10;
  unsigned grid = 0x7fffffff;
};

// Resources of a CTA.
struct CtaShape {
  unsigned threads, registers;  // per thread
  std::size_t shared_bytes;

  static CtaShape of(const Grid& grid) { return {grid.threads, grid.registers, grid.shared_bytes}; }
};

class Room {
 public:
  explicit Room(const DeviceLimits& limits);

  // CTAs of this shape that fit on one multiprocessor.
  static int per_multiprocessor(const DeviceLimits& limits, const CtaShape& shape);
  int capacity(const CtaShape& shape) const;  // on the whole device when it is empty
  bool holds_now(const Grid& grid) const;     // all of its CTAs at once
  // Takes room for one more CTA; returns the multiprocessor, or -1.
  int take(const Grid& grid, Random& random);
  void give_back(const Grid& grid, int multiprocessor);
  const DeviceLimits& limits() const { return limits_; }

 private:
  struct Used {
    unsigned ctas = 0, threads = 0, registers = 0;
    std::size_t shared = 0;
  };
  int free_places(const Used& used, const CtaShape& shape) const;

  DeviceLimits limits_;
  std::vector<Used> used_;
};

}  // namespace rondo::simt
