// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "collectives/model/predictions.h"

namespace rondo::model {
namespace {

// A hop of a ring: time that a chunk keeps it busy, and time that a chunk takes to pass it.
struct Hop {
  double busy_ns, pass_ns;
};

struct Ring {
  std::vector<sim::Route> hops;  // from each position to the next one
  double wire_bytes = 0;         // of a chunk
  double copy_ns = 0, sum_ns = 0;
};

double work_ns(const sim::SimCall& call, const sim::SimStream& stream, double bytes, double gbs) {
  return call.cost.fixed_ns + (gbs > 0 ? bytes / (gbs * stream.ctas) : 0);
}

// Elements that one verb moves.
std::uint64_t chunk_of(const sim::SimCall& call, const sim::SimStream& stream) {
  const std::uint64_t round = std::min(stream.per_round, stream.count);
  if (call.collective != Collective::kAllReduce) return round;
  return part_of({0, round}, 0, call.ranks, call.grain).count;
}

Ring ring_of(const sim::Machine& machine, const sim::SimCall& call, int number) {
  const sim::SimStream& stream = call.streams[static_cast<std::size_t>(number)];
  const std::size_t n = stream.order.size();
  Ring ring;
  for (std::size_t p = 0; p < n; ++p)
    ring.hops.push_back(machine.routes(stream.order[p], stream.order[(p + 1) % n], number));
  const double bytes = static_cast<double>(chunk_of(call, stream) * call.element_bytes);
  ring.wire_bytes = bytes * call.cost.wire_bytes;
  ring.copy_ns = work_ns(call, stream, bytes, call.cost.copy_gbs);
  ring.sum_ns = work_ns(call, stream, bytes, call.cost.sum_gbs);
  return ring;
}

// `load`: bytes that all hops of all rings put on each wire in a step.
Hop hop_of(const sim::Machine& machine, const sim::Route& route, const std::vector<double>& load,
           double work) {
  double wire = 0;
  for (const int w : route.wires)
    wire = std::max(
        wire, load[static_cast<std::size_t>(w)] / machine.wire_gbs[static_cast<std::size_t>(w)]);
  const double pass = route.by_proxy ? work + wire : std::max(work, wire);
  return {std::max(work, wire), pass + route.latency_ns};
}

// Hops of a ring: the time of the slowest, and the average time, with latency separate.
struct Lap {
  double slowest_ns = 0, busy_ns = 0, latency_ns = 0;
  double pass_ns() const { return busy_ns + latency_ns; }
};
Lap lap_of(const sim::Machine& machine, const Ring& ring, const std::vector<double>& load,
           double work) {
  Lap lap;
  const auto hops = static_cast<double>(ring.hops.size());
  for (const sim::Route& route : ring.hops) {
    const Hop hop = hop_of(machine, route, load, work);
    lap.slowest_ns = std::max(lap.slowest_ns, hop.busy_ns);
    lap.busy_ns += hop.busy_ns / hops;
    lap.latency_ns += (hop.pass_ns - hop.busy_ns) / hops;
  }
  return lap;
}

// Rounds of a ring (ring.h): a first chunk is sent, then the steps of each kind receive and send
// on. The next round's first chunk is sent before this round's last chunk is received.
double cycle_ns(double rounds, double copied, double summed, const Lap& copies, const Lap& sums,
                double last_ns) {
  const double send = copies.busy_ns, latency = copies.latency_ns;
  const double steps = copied + summed;
  // Minimum set by the slowest hop, for any path.
  const double slowest = (copied + 1) * copies.slowest_ns + summed * sums.slowest_ns;
  if (steps == 0) {
    const double period = std::max({send + last_ns, (send + latency + last_ns) / 2, slowest});
    return send + latency + last_ns + (rounds - 1) * period;
  }
  const double middle = copied * copies.busy_ns + summed * sums.busy_ns + (steps - 1) * latency;
  const double between = std::max(std::max(send, latency) + last_ns, send + latency);
  const double period = std::max(middle + between, slowest);
  return send + latency + middle + (rounds - 1) * period + latency + last_ns;
}

double ring_ns(const sim::SimCall& call, const sim::SimStream& stream, const Ring& ring,
               const Lap& copies, const Lap& sums) {
  const double n = call.ranks;
  const auto rounds = static_cast<double>(Rounds{stream.count, stream.per_round, 1}.size());
  switch (call.collective) {
    case Collective::kAllReduce:
      return cycle_ns(rounds, n - 2, n - 1, copies, sums, ring.copy_ns);
    case Collective::kAllGather:
      return cycle_ns(rounds, n - 2, 0, copies, sums, ring.copy_ns);
    case Collective::kReduceScatter:
      return cycle_ns(rounds, 0, n - 2, copies, sums, ring.sum_ns);
    case Collective::kReduce:
      return copies.pass_ns() + (n - 2) * sums.pass_ns() + ring.sum_ns +
             (rounds - 1) * sums.slowest_ns;
    default:
      return (n - 1) * copies.pass_ns() + ring.copy_ns + (rounds - 1) * copies.slowest_ns;
  }
}

}  // namespace

double closed_form_ns(const sim::Machine& machine, const sim::SimCall& call) {
  std::vector<Ring> rings;
  std::vector<double> load(machine.wire_gbs.size(), 0);
  for (std::size_t s = 0; s < call.streams.size(); ++s) {
    rings.push_back(ring_of(machine, call, static_cast<int>(s)));
    for (const sim::Route& route : rings.back().hops)
      for (const int wire : route.wires)
        load[static_cast<std::size_t>(wire)] += rings.back().wire_bytes;
  }
  double longest = 0;
  for (std::size_t s = 0; s < rings.size(); ++s) {
    const Lap copies = lap_of(machine, rings[s], load, rings[s].copy_ns);
    const Lap sums = lap_of(machine, rings[s], load, rings[s].sum_ns);
    longest = std::max(longest, ring_ns(call, call.streams[s], rings[s], copies, sums));
  }
  return longest;
}

}  // namespace rondo::model
