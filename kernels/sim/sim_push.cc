// SPDX-License-Identifier: Apache-2.0
#include "kernels/sim/sim_push.h"

#include <utility>

namespace rondo::sim {

PushedRounds::PushedRounds(const Machine& machine, VirtualTime& time, Traffic& traffic,
                           const VerbCost& cost, std::uint64_t element_bytes, int ctas, int ranks)
    : time_(time),
      traffic_(traffic),
      cost_(cost),
      element_bytes_(static_cast<double>(element_bytes)),
      ctas_(ctas),
      ranks_(static_cast<std::size_t>(ranks)) {
  for (int from = 0; from < ranks; ++from) {
    Rank& rank = ranks_[static_cast<std::size_t>(from)];
    rank.come_ns.resize(ranks_.size());
    for (int to = 0; to < ranks; ++to)
      rank.to.push_back(from == to ? Route{} : machine.routes(from, to, 0));
  }
}

void SimPush::expose(int, const Piece& piece) {
  const double wire =
      static_cast<double>(piece.count) * shared_.element_bytes_ * shared_.cost_.wire_bytes;
  const double begun_ns = shared_.time_.now_ns();
  for (int k = 1; k < size(); ++k) {
    const int peer = (rank_ + k) % size();
    const Route& route = of(rank_).to[static_cast<std::size_t>(peer)];
    // Sends when the rank's own wire is free, so that a peer's wire serves ranks in arrival order.
    if (!route.wires.empty())
      shared_.time_.advance_to(shared_.traffic_.free_ns(route.wires.front()));
    shared_.time_.settle();
    const double now_ns = shared_.time_.now_ns();
    const double sent_ns = shared_.traffic_.send(route.wires, wire, now_ns);
    of(peer).come_ns[static_cast<std::size_t>(rank_)].push_back(sent_ns + route.latency_ns);
    const auto waiting = std::exchange(of(peer).waiting, VirtualTime::kNone);
    if (waiting != VirtualTime::kNone) shared_.time_.wake(waiting, now_ns);
  }
  shared_.time_.advance_to(begun_ns + work_ns(piece.count, size() - 1, shared_.cost_.copy_gbs));
}

void SimPush::take(int from) {
  const std::vector<double>& come_ns = of(rank_).come_ns[static_cast<std::size_t>(from)];
  while (come_ns.size() < round_) {
    of(rank_).waiting = shared_.time_.self();
    shared_.time_.park();
  }
  shared_.time_.advance_to(come_ns[round_ - 1]);
}

void SimPush::reduce(int, const Piece& piece, const Delivery&) {
  for (int k = 1; k < size(); ++k) take((rank_ + k) % size());
  pass(work_ns(piece.count, size() - 1, shared_.cost_.sum_gbs));
}

void SimPush::copy(int from, int, const Piece& piece, std::uint64_t) {
  take(from);
  pass(work_ns(piece.count, 1, shared_.cost_.copy_gbs));
}

// `lines`: number of lines per element that are read or written, not both.
double SimPush::work_ns(std::uint64_t count, double lines, double cta_gbs) const {
  if (count == 0) return 0;
  const double bytes = static_cast<double>(count) * shared_.element_bytes_ * lines;
  const double gbs = 2 * cta_gbs * shared_.ctas_;
  return shared_.cost_.fixed_ns + (gbs > 0 ? bytes / gbs : 0);
}

}  // namespace rondo::sim
