// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/touch.h"

namespace rondo::host {
namespace {

// The touches that were in progress at construction.
class Touches {
 public:
  explicit Touches(const HostRank& rank)
      : rank_(rank), began_(static_cast<std::size_t>(rank.size)) {
    for (int r = 0; r < rank.size; ++r)
      began_[r] = r == rank.rank ? 0 : HostAtomics::load_seq_cst(word(r));
  }
  bool lasts(int r) const {
    return began_[r] % 2 == 1 && HostAtomics::load_acquire(word(r)) == began_[r];
  }
  bool any_lasts() const {
    for (int r = 0; r < rank_.size; ++r)
      if (lasts(r)) return true;
    return false;
  }
  static bool needs(const void* self, int global) {
    const auto& touches = *static_cast<const Touches*>(self);
    for (int r = 0; r < touches.rank_.size; ++r)
      if (touches.rank_.global[r] == global) return touches.lasts(r);
    return false;
  }

 private:
  const std::uint32_t& word(int r) const { return rank_.peers[r].progress->touching; }

  const HostRank& rank_;
  Pointers<std::uint32_t> began_;
};

}  // namespace

bool outlast_touches(HostRank& rank) {
  const Touches touches(rank);
  Waiter waiter(rank.self().parked, rank.self().bell);
  waiter.set_supervisor(
      {rank.hooks.owner, rank.hooks.await_touches, rank.waiter.supervisor().suspend});
  return waiter.until([&] { return !touches.any_lasts(); },
                      {-1, rank.step, -1, &Touches::needs, &touches});
}

}  // namespace rondo::host
