#include "tests/simt/machine/room.h"

#include <algorithm>

namespace rondo::simt {
namespace {

constexpr std::size_t kSharedPerCta = 1 << 10;  // what the system keeps of each CTA's

unsigned whole_warps(unsigned threads) {
  return (threads + kWarpLanes - 1) / kWarpLanes * kWarpLanes;
}

}  // namespace

Room::Room(const DeviceLimits& limits)
    : limits_(limits), used_(static_cast<std::size_t>(limits.multiprocessors)) {}

int Room::free_places(const Used& used, const Grid& grid) const {
  const unsigned threads = whole_warps(grid.threads);
  const std::size_t shared = grid.shared_bytes + kSharedPerCta;
  const unsigned most_threads =
      std::min(limits_.threads_per_multiprocessor,
               limits_.registers_per_multiprocessor / limits_.registers_per_thread);
  if (used.threads >= most_threads) return 0;
  const std::size_t places =
      std::min({static_cast<std::size_t>(limits_.ctas_per_multiprocessor - used.ctas),
                static_cast<std::size_t>((most_threads - used.threads) / threads),
                (limits_.shared_per_multiprocessor - used.shared) / shared});
  return static_cast<int>(places);
}

int Room::per_multiprocessor(const DeviceLimits& limits, unsigned threads, std::size_t shared) {
  Grid grid;
  grid.threads = threads, grid.shared_bytes = shared;
  return Room(limits).free_places({}, grid);
}

int Room::capacity(unsigned threads, std::size_t shared) const {
  return per_multiprocessor(limits_, threads, shared) * limits_.multiprocessors;
}

bool Room::holds_now(const Grid& grid) const {
  unsigned places = 0;
  for (const Used& used : used_) places += static_cast<unsigned>(free_places(used, grid));
  return places >= grid.ctas;
}

int Room::take(const Grid& grid, Random& random) {
  const std::size_t start = random.below(used_.size());
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const std::size_t place = (start + i) % used_.size();
    Used& used = used_[place];
    if (free_places(used, grid) == 0) continue;
    used.ctas += 1;
    used.threads += whole_warps(grid.threads);
    used.shared += grid.shared_bytes + kSharedPerCta;
    return static_cast<int>(place);
  }
  return -1;
}

void Room::give_back(const Grid& grid, int multiprocessor) {
  Used& used = used_[static_cast<std::size_t>(multiprocessor)];
  used.ctas -= 1;
  used.threads -= whole_warps(grid.threads);
  used.shared -= grid.shared_bytes + kSharedPerCta;
}

}  // namespace rondo::simt
