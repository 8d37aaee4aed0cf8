// Hierarchical reduce-scatter. Rail k reduces, from its own host, the blocks of local ranks k, k +
// rails, ... of every host. These sums pass once around the hosts; then the blocks' owners fetch
// them.
//
// `rounds` split one block; a slot holds one round of all n blocks: a rank's input has one block
// per rank, and a rail has at most n sums. Traffic between H hosts for n blocks of S bytes: every
// host sends n * S * (H-1)/H, shared by its rails. A ring over all n ranks sends (n-1) * S over
// one. Order: host ring, ending at the owner's host. Slots: two per connection. In place,
// zero-copy: safe, because only its owner writes a block, after it was reduced.
#pragma once

#include "kernels/algorithms/host_map.h"
#include "kernels/primitives.h"

namespace rondo {

template <RelayingMemory H, class Cross>
RONDO_FN void hierarchical_reduce_scatter(H& host, Cross& cross, const HostMap& map,
                                          const Rounds& rounds, std::uint64_t longest) {
  const int me = host.rank();
  const auto input_slot = [](std::uint64_t round) { return static_cast<int>(round % 2); };
  const auto sums_slot = [](std::uint64_t round) { return static_cast<int>(2 + round % 2); };
  const auto block = [&](std::uint64_t round, int rank) {
    const Slice part = rounds[round];
    return Piece{rank * rounds.count + part.begin, rank * rounds.per_round, part.count};
  };
  // Position, in its rail's slot, of the sum for local rank `local` of host h.
  const auto window = [&](int h, int local) {
    const int rail = local % map.rails;
    int before = local / map.rails;
    for (int g = 0; g < h; ++g) before += (map.size(g) - rail + map.rails - 1) / map.rails;
    return before * rounds.per_round;
  };
  const auto expose_round = [&](std::uint64_t round) {
    if (round == rounds.size()) return;
    host.open(input_slot(round));
    for (int rank = 0; rank < map.first[map.hosts]; ++rank)
      host.expose(input_slot(round), block(round, rank));
  };
  // Sends the sums for local rank `local` around the hosts, chunk by chunk. A host without that
  // rank has an empty chunk.
  const auto go_around = [&](std::uint64_t round, int local) {
    auto&& links = cross.in_slot(sums_slot(round));
    const auto before = [&](int k) { return (map.host + map.hosts - k) % map.hosts; };
    auto ring = links.between({before(1), -1}, {before(map.hosts - 1), -1}, 0);
    const Slice part{0, rounds[round].count};
    for (std::uint64_t t = 0; t < chunks_of(part, longest); ++t) {
      const auto chunk = [&](int k) {
        const int h = before(k);
        if (local >= map.size(h)) return Chunk{0, 0, 0};
        const Chunk within = chunk_of(part, t, longest);
        const std::uint64_t at = window(h, local) + within.in_at;
        return Chunk{at, at, within.count};
      };
      ring.send_kept(chunk(1));
      for (int k = 2; k < map.hosts; ++k) ring.recv_reduce_send(chunk(k));
      ring.recv_reduce_copy(chunk(map.hosts));
    }
  };

  expose_round(0);
  host.publish();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    wait_for_all(host);
    host.open(sums_slot(round));
    // A rank that is not a rail reads nothing, but makes the call in the same step: release()
    // relies on that.
    if (me >= map.rails) host.reduce_kept(input_slot(round), {0, 0, 0}, sums_slot(round), 0);
    for (int h = 0; h < map.hosts; ++h)
      for (int local = me; me < map.rails && local < map.size(h); local += map.rails)
        host.reduce_kept(input_slot(round), block(round, map.rank(h, local)), sums_slot(round),
                         window(h, local));
    expose_round(round + 1);
    for (int local = me; me < map.rails && local < map.largest(); local += map.rails)
      go_around(round, local);
    host.publish();
    const int rail = me % map.rails;
    if (rail != me) host.wait(rail);
    host.copy_kept(rail, sums_slot(round),
                   {rounds[round].begin, window(map.host, me), rounds[round].count});
  }
  host.release();
}

}  // namespace rondo
