// SPDX-License-Identifier: Apache-2.0
// Hierarchical collectives, for ranks on several hosts: shared memory inside a host, connections
// between hosts.
//
// An algorithm uses two views. `host` is RelayingMemory over the ranks of this host. `cross` is
// FoldingLinks over the hosts: its "rank" h is this rank's partner on host h, the rank with the
// same local number. Only the rails have partners: the first ranks of a host, as many as the
// smallest host has. The data between hosts is either this rank's own output, with positions
// counted from cross.at(begin), or a slot of its own staging, cross.in_slot(slot), with windows as
// positions.
//
// hierarchical_all_reduce is the two-shot of a host (two_shot.h) with an all-reduce over hosts
// between its two halves. Rail k reduces part k of a round from its host, then with its partners;
// then its host fetches the part. Traffic between H hosts for S bytes: every host sends 2 * S *
// (H-1)/H, shared by its rails. A ring over all n ranks sends 2 * S * (n-1)/n over one. Order: host
// tree. Slots: one per connection.
//
// hierarchical_all_gather: rail k sends the blocks k, k + rails, ... of its host around the hosts.
// Every host sends the blocks of H - 1 hosts, where a ring sends n - 1 blocks. Order: none. Slots:
// two per connection.
//
// hierarchical_reduce_scatter: below. The rooted ones: hierarchical_rooted.h.
// Hosts of unequal size: ranks without partners exchange their data inside their host.
// In place, zero-copy: safe, because only the delivering rank has read what it overwrites.
#pragma once

#include "base/fn.h"
#include "kernels/algorithms/recursive.h"
#include "kernels/primitives.h"

namespace rondo {

// HostMap: which rank of a communicator is on which host. Hierarchical algorithms read it. Hosts
// are in the order of their first ranks; the ranks of a host ascend.
struct HostMap {
  int hosts;
  int host;          // the host of this rank
  int rails;         // minimum number of ranks of a host
  const int* first;  // hosts + 1 entries: index in `ranks` of each host's first rank
  const int* ranks;

  RONDO_FN constexpr int size(int h) const { return first[h + 1] - first[h]; }
  RONDO_FN constexpr int rank(int h, int local) const { return ranks[first[h] + local]; }
  RONDO_FN constexpr int host_of(int rank) const {
    for (int h = 0; h + 1 < hosts; ++h)
      for (int local = 0; local < size(h); ++local)
        if (this->rank(h, local) == rank) return h;
    return hosts - 1;
  }
  RONDO_FN constexpr int local_of(int rank) const {
    const int h = host_of(rank);
    int local = 0;
    while (this->rank(h, local) != rank) ++local;
    return local;
  }
  RONDO_FN constexpr int largest() const {
    int maximum = 0;
    for (int h = 0; h < hosts; ++h) maximum = size(h) > maximum ? size(h) : maximum;
    return maximum;
  }
};

// `longest`: elements that a slot of a connection holds.
template <RelayingMemory H, class Cross>
RONDO_FN void hierarchical_all_reduce(H& host, Cross& cross, const HostMap& map,
                                      const Rounds& rounds, std::uint64_t longest) {
  const int n = host.size(), me = host.rank();
  const auto input_slot = [](std::uint64_t round) { return static_cast<int>(round % 2); };
  const auto result_slot = [](std::uint64_t round) { return static_cast<int>(2 + round % 2); };
  const auto piece = [&](std::uint64_t round, int owner) {
    if (owner >= map.rails) return Piece{0, 0, 0};
    const Slice part = part_of(rounds[round], owner, map.rails, rounds.grain);
    return Piece{part.begin, part.begin - rounds[round].begin, part.count};
  };
  const auto expose_round = [&](std::uint64_t round) {
    if (round == rounds.size()) return;
    host.open(input_slot(round));
    for (int k = 1; k < n; ++k) host.expose(input_slot(round), piece(round, (me + k) % n));
  };
  const auto reduce_across = [&](const Piece& mine) {
    if (mine.count == 0) return;
    auto&& links = cross.at(mine.at);
    recursive_all_reduce(links, Rounds{mine.count, longest, rounds.grain, rounds.whole});
  };

  expose_round(0);
  host.publish();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Piece mine = piece(round, me);
    wait_for_all(host);
    host.reduce(input_slot(round), mine, {true, mine.at, -1, 0, -1, false});
    expose_round(round + 1);
    reduce_across(mine);
    host.open(result_slot(round));
    host.expose_kept(result_slot(round), mine);
    host.publish();
    for (int k = 1; k < n; ++k) {
      const int owner = (me + k) % n;
      host.wait(owner);
      host.copy_result(owner, result_slot(round), piece(round, owner));
    }
  }
  host.release();
}

// Number of elements of a staging slot that one round uses: the blocks that a rail fetches from
// other hosts. `largest`: maximum number of ranks of a host.
RONDO_FN constexpr std::uint64_t hierarchical_all_gather_slot(int hosts, int rails, int largest,
                                                              std::uint64_t per_round) {
  return static_cast<std::uint64_t>(hosts - 1) * ((largest + rails - 1) / rails) * per_round;
}

template <RelayingMemory H, class Cross>
RONDO_FN void hierarchical_all_gather(H& host, Cross& cross, const HostMap& map,
                                      const Rounds& rounds, std::uint64_t longest) {
  const int n = host.size(), me = host.rank();
  const auto input_slot = [](std::uint64_t round) { return static_cast<int>(round % 2); };
  const auto result_slot = [](std::uint64_t round) { return static_cast<int>(2 + round % 2); };
  const auto place = [&](std::uint64_t round, int h, int local) {
    return map.rank(h, local) * rounds.count + rounds[round].begin;
  };
  const auto expose_round = [&](std::uint64_t round) {
    if (round == rounds.size()) return;
    host.open(input_slot(round));
    host.expose(input_slot(round), {rounds[round].begin, 0, rounds[round].count});
  };
  // Sends block `local` of every host once around the hosts, chunk by chunk. A host without that
  // block has an empty chunk.
  const auto go_around = [&](std::uint64_t round, int local) {
    auto&& links = cross.at(0);
    const auto before = [&](int k) { return (map.host + map.hosts - k) % map.hosts; };
    auto ring = links.between({before(1), -1}, {before(map.hosts - 1), -1}, 0);
    const Slice part{0, rounds[round].count};
    for (std::uint64_t t = 0; t < chunks_of(part, longest); ++t) {
      const auto chunk = [&](int k) {
        const int h = before(k);
        if (local >= map.size(h)) return Chunk{0, 0, 0};
        const Chunk within = chunk_of(part, t, longest);
        const std::uint64_t at = place(round, h, local) + within.in_at;
        return Chunk{at, at, within.count};
      };
      ring.send_kept(chunk(0));
      for (int k = 1; k < map.hosts - 1; ++k) ring.recv_copy_send(chunk(k));
      ring.recv(chunk(map.hosts - 1));
    }
  };
  // Calls `verb` for each piece that rail `rail` has fetched in a round.
  const auto fetched = [&](std::uint64_t round, int rail, auto&& verb) {
    std::uint64_t window = 0;
    for (int h = 0; h < map.hosts; ++h) {
      for (int local = rail; h != map.host && local < map.size(h); local += map.rails) {
        verb(Piece{place(round, h, local), window, rounds[round].count});
        window += rounds[round].count;
      }
    }
  };
  const int maximum = map.largest();

  expose_round(0);
  host.publish();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const int slot = input_slot(round);
    host.copy_own(part.begin, place(round, map.host, me), part.count);
    for (int k = 1; k < n; ++k) {
      const int from = (me + k) % n;
      host.wait(from);
      host.copy(from, slot, {part.begin, 0, part.count}, place(round, map.host, from));
    }
    expose_round(round + 1);
    for (int local = me; me < map.rails && local < maximum; local += map.rails)
      go_around(round, local);
    host.open(result_slot(round));
    if (me < map.rails)
      fetched(round, me, [&](Piece piece) { host.expose_kept(result_slot(round), piece); });
    host.publish();
    for (int k = 1; k < n; ++k) {
      const int rail = (me + k) % n;
      host.wait(rail);
      if (rail < map.rails)
        fetched(round, rail,
                [&](Piece piece) { host.copy_result(rail, result_slot(round), piece); });
    }
  }
  host.release();
}

// Hierarchical reduce-scatter. Rail k reduces, from its own host, the blocks of local ranks k, k +
// rails, ... of every host. These sums pass once around the hosts; then the blocks' owners fetch
// them.
//
// `rounds` split one block; a slot holds one round of all n blocks: a rank's input has one block
// per rank, and a rail has at most n sums. Traffic between H hosts for n blocks of S bytes: every
// host sends n * S * (H-1)/H, shared by its rails. A ring over all n ranks sends (n-1) * S over
// one. Order: host ring, ending at the owner's host. Slots: two per connection. In place,
// zero-copy: safe, because only its owner writes a block, after it was reduced.
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
