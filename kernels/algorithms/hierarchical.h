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
// The others: hierarchical_reduce_scatter.h, hierarchical_rooted.h.
// Hosts of unequal size: ranks without partners exchange their data inside their host.
// In place, zero-copy: safe, because only the delivering rank has read what it overwrites.
#pragma once

#include "kernels/algorithms/host_map.h"
#include "kernels/algorithms/recursive.h"
#include "kernels/primitives.h"

namespace rondo {

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
  const int most = map.largest();

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
    for (int local = me; me < map.rails && local < most; local += map.rails)
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

}  // namespace rondo
