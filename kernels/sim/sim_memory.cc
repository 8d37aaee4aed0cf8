#include "kernels/sim/sim_memory.h"

#include <algorithm>

namespace rondo::sim {

SharedSteps::SharedSteps(const Machine& machine, VirtualTime& time, Traffic& traffic,
                         const VerbCost& cost, std::uint64_t element_bytes, int ctas, int ranks)
    : machine_(machine),
      time_(time),
      traffic_(traffic),
      cost_(cost),
      element_bytes_(static_cast<double>(element_bytes)),
      ctas_(ctas),
      ranks_(static_cast<std::size_t>(ranks)) {
  for (int to = 0; to < ranks; ++to)
    for (int from = 0; from < ranks; ++from)
      ranks_[static_cast<std::size_t>(to)].from.push_back(
          from == to ? Route{} : machine_.routes(from, to, 0));
}

void SimMemory::wait_for(int r, std::uint64_t step) {
  finish_fetches();
  if (r == rank_ || step == 0) return;
  SharedSteps::Rank& peer = shared_.ranks_[static_cast<std::size_t>(r)];
  while (peer.published_ns.size() < step) {
    peer.waiting.push_back(shared_.time_.self());
    shared_.time_.park();
  }
  const double latency = mine().from[static_cast<std::size_t>(r)].latency_ns;
  shared_.time_.advance_to(peer.published_ns[step - 1] + latency);
}

void SimMemory::open(int slot) {
  const std::uint64_t last = mine().slot_step[slot];
  if (last == 0) return;
  for (int r = 0; r < size(); ++r) wait_for(r, last + 1);
}

void SimMemory::publish() {
  finish_fetches();
  mine().published_ns.push_back(shared_.time_.now_ns());
  for (const VirtualTime::Task task : mine().waiting)
    shared_.time_.wake(task, shared_.time_.now_ns());
  mine().waiting.clear();
}

void SimMemory::reduce(int, const Piece& piece, const Delivery& to) {
  if (piece.count == 0) return;
  for (int k = 1; k < size(); ++k) fetch((rank_ + k) % size(), piece.count);
  work(piece.count, true, size());
  if (to.slot >= 0) mine().slot_step[to.slot] = step() + 1;
}

void SimMemory::fetch(int r, std::uint64_t count) {
  if (count == 0) return;
  shared_.time_.settle();
  const Route& route = mine().from[static_cast<std::size_t>(r)];
  const double bytes = static_cast<double>(count) * shared_.element_bytes_;
  const double wire = bytes * shared_.cost_.wire_bytes;
  fetched_ns_ =
      std::max(fetched_ns_, shared_.traffic_.send(route.wires, wire, shared_.time_.now_ns()));
}

// Reads `operands` times as many elements as it writes.
void SimMemory::work(std::uint64_t count, bool sums, int operands) {
  if (count == 0) return;
  const double rate = (sums ? shared_.cost_.sum_gbs : shared_.cost_.copy_gbs) * shared_.ctas_;
  const double bytes = static_cast<double>(count) * shared_.element_bytes_;
  // Rates are of a pair of operands.
  const double pairs = sums ? operands - 1 : 1;
  const double takes = shared_.cost_.fixed_ns + (rate > 0 ? bytes * pairs / rate : 0);
  shared_.time_.advance_to(shared_.time_.now_ns() + takes);
}

void SimMemory::finish_fetches() { shared_.time_.advance_to(fetched_ns_); }

}  // namespace rondo::sim
