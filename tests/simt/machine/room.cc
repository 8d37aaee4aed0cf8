// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/room.h"

#include <algorithm>

namespace rondo::simt {
namespace {

constexpr std::size_t kSharedPerCta = 1 << 10;  // shared memory that the system reserves per CTA

unsigned whole_warps(unsigned threads) {
  return (threads + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
}

// Registers of a CTA: warps allocate them in units of 256.
unsigned registers_of(const CtaShape& shape) {
  constexpr unsigned kAtOnce = 256;
  const unsigned of_warp = (shape.registers * kWarpLanes + kAtOnce - 1) / kAtOnce * kAtOnce;
  return whole_warps(shape.threads) / kWarpLanes * of_warp;
}

}  // namespace

Room::Room(const DeviceLimits& limits)
    : limits_(limits), used_(static_cast<std::size_t>(limits.multiprocessors)) {}

int Room::free_places(const Used& used, const CtaShape& shape) const {
  const unsigned threads = whole_warps(shape.threads);
  const std::size_t shared = shape.shared_bytes + kSharedPerCta;
  const std::size_t places = std::min(
      {static_cast<std::size_t>(limits_.ctas_per_multiprocessor - used.ctas),
       static_cast<std::size_t>((limits_.threads_per_multiprocessor - used.threads) / threads),
       static_cast<std::size_t>((limits_.registers_per_multiprocessor - used.registers) /
                                registers_of(shape)),
       (limits_.shared_per_multiprocessor - used.shared) / shared});
  return static_cast<int>(places);
}

int Room::per_multiprocessor(const DeviceLimits& limits, const CtaShape& shape) {
  return Room(limits).free_places({}, shape);
}

int Room::capacity(const CtaShape& shape) const {
  return per_multiprocessor(limits_, shape) * limits_.multiprocessors;
}

bool Room::holds_now(const Grid& grid) const {
  unsigned places = 0;
  for (const Used& used : used_)
    places += static_cast<unsigned>(free_places(used, CtaShape::of(grid)));
  return places >= grid.ctas;
}

int Room::take(const Grid& grid, Random& random) {
  const std::size_t start = random.below(used_.size());
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const std::size_t place = (start + i) % used_.size();
    Used& used = used_[place];
    if (free_places(used, CtaShape::of(grid)) == 0) continue;
    used.ctas += 1;
    used.threads += whole_warps(grid.threads);
    used.registers += registers_of(CtaShape::of(grid));
    used.shared += grid.shared_bytes + kSharedPerCta;
    return static_cast<int>(place);
  }
  return -1;
}

void Room::give_back(const Grid& grid, int multiprocessor) {
  Used& used = used_[static_cast<std::size_t>(multiprocessor)];
  used.ctas -= 1;
  used.threads -= whole_warps(grid.threads);
  used.registers -= registers_of(CtaShape::of(grid));
  used.shared -= grid.shared_bytes + kSharedPerCta;
}

}  // namespace rondo::simt
