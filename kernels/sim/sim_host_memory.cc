// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/sim_host_memory.h"

#include <algorithm>

namespace rondo::sim {

bool SimHostMemory::exposes_input() const {
  return lies(HostPath::kBuffers) && is_among(shared_.row.inputs, rank_, root_);
}
bool SimHostMemory::exposes_output(int rank) const {
  return lies(HostPath::kBuffers) && is_among(shared_.row.outputs, rank, root_);
}

void SimHostMemory::begin(int root) {
  if (begun_.empty()) shared_.cores.take(rank_);
  root_ = root;
  spend(cost().call + cost().memory);
  begun_.push_back(step() + 1);
  // The announcement has room once all peers have announced the call kAhead calls back.
  constexpr std::size_t kAhead = kAnnounceDepth - 1;
  if (begun_.size() <= kAhead) return;
  for (int r = 0; r < size(); ++r) see_step(r, begun_[begun_.size() - 1 - kAhead]);
}

void SimHostMemory::leave() {
  shared_.time.settle();
  shared_.cores.give(rank_, shared_.time.now_ns());
}

void SimHostMemory::open(int slot) {
  const std::uint64_t last = slot_step(slot);
  if (last == 0) return;
  for (int r = 0; r < size(); ++r) see_step(r, last + 1);
}

void SimHostMemory::expose(int slot, const Piece& piece) {
  if (exposes_input() || piece.count == 0) return;
  if (!lies(HostPath::kLines)) slot_step(slot) = step() + 1;
  work(piece.count, cost().copy);
}

void SimHostMemory::publish() {
  shared_.time.settle();
  const double now = shared_.time.now_ns();
  mine().published_ns.push_back(now);
  std::erase_if(mine().waiting, [&](const HostSteps::Rank::Waiting& one) {
    if (one.step > step()) return false;
    shared_.time.wake(one.task, now);
    return true;
  });
}

void SimHostMemory::reduce(int, const Piece& piece, const Delivery& to) {
  last_look_ = step() + 1;
  if (piece.count == 0) return;
  work(piece.count * static_cast<std::uint64_t>(size() - 1), cost().sum);
  int stores = to.keep ? 1 : 0;
  bool staged = false;
  for (int r = 0; r < size() && to.slot >= 0; ++r) {
    if (r == rank_ || (to.reader >= 0 && r != to.reader)) continue;
    if (exposes_output(r)) {
      ++stores;
    } else {
      staged = true;
    }
  }
  if (staged) {
    slot_step(to.slot) = step() + 1;
    ++stores;
  }
  // The sum's cost includes the first store.
  if (stores > 1) work(piece.count * static_cast<std::uint64_t>(stores - 1), cost().copy);
}

void SimHostMemory::copy(int, int, const Piece& piece, std::uint64_t) {
  last_look_ = step() + 1;
  work(piece.count, cost().copy);
}

void SimHostMemory::copy_result(int, int, const Piece& piece) {
  if (!exposes_output(rank_)) work(piece.count, cost().copy);
}

void SimHostMemory::release() {
  if (lies(HostPath::kLines)) return;
  publish();
  if (!exposes_input() && !exposes_output(rank_)) return;
  const std::uint64_t needed = is_rooted(shared_.call.collective) ? step() : last_look_;
  for (int k = 1; k < size(); ++k) {
    const int r = (rank_ + k) % size();
    see_announced(r);
    see_step(r, needed);
  }
}

void SimHostMemory::wait(int r) {
  see_announced(r);
  see_step(r, step());
}

void SimHostMemory::see_announced(int r) {
  std::size_t& seen = seen_call_[static_cast<std::size_t>(r)];
  if (r == rank_ || seen == begun_.size()) return;
  seen = begun_.size();
  read_step(r, begun_.back());
}

void SimHostMemory::see_step(int r, std::uint64_t step) {
  if (r != rank_ && step > known_[static_cast<std::size_t>(r)]) read_step(r, step);
}

void SimHostMemory::read_step(int r, std::uint64_t step) {
  const auto index = static_cast<std::size_t>(r);
  shared_.time.settle();
  HostSteps::Rank& peer = shared_.ranks[index];
  if (peer.published_ns.size() < step) park_for(r, step);
  const double until_seen = shared_.cores.share(r, rank_) ? 0 : cost().meet;
  shared_.time.advance_to(peer.published_ns[step - 1] + until_seen);
  const double now = shared_.time.now_ns();
  std::uint64_t& known = known_[index];
  known = std::max(known, step);
  while (known < peer.published_ns.size() && peer.published_ns[known] + until_seen <= now) ++known;
  spend(cost().peer);
}

// A rank does not check which rank it waits for: it spins for a while, then other ranks may take
// its core.
void SimHostMemory::park_for(int r, std::uint64_t step) {
  VirtualTime& time = shared_.time;
  shared_.ranks[static_cast<std::size_t>(r)].waiting.push_back({time.self(), step});
  const std::uint64_t wait = ++waits_;
  time.call_at(time.now_ns() + cost().spin, end_spin, this, wait);
  time.park();
  if (waits_ != wait) {
    shared_.cores.take(rank_);
  } else {
    ++waits_;
  }
}

void SimHostMemory::end_spin(void* self, std::uint64_t wait) {
  auto& of_rank = *static_cast<SimHostMemory*>(self);
  if (of_rank.waits_ != wait) return;
  ++of_rank.waits_;
  of_rank.shared_.cores.give(of_rank.rank_, of_rank.shared_.time.event_ns());
}

}  // namespace rondo::sim
