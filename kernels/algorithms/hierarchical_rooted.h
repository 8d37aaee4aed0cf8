// SPDX-License-Identifier: Apache-2.0
// Hierarchical broadcast and reduce: shared memory inside each host, a chain between the hosts.
//
// A round is split into one part per rail; rail k carries part k.
// Broadcast: the ranks of the root's host copy the round from the root, the rails send their parts
// from host to host, and the ranks of every other host fetch the parts from their rails. Traffic
// for S bytes: every host except the last of the chain sends S, shared by its rails. A chain of all
// ranks also sends S, but over one rank of a host, and every rank receives and sends it.
// Reduce: the same in reverse. The rails reduce their parts of a round from their host, each host
// of the chain adds its own on the way to the root's host, and the root fetches the parts.
// Order: none for broadcast; host ring for reduce, ending at the root's host. Slots: one per
// connection. In place, zero-copy: safe.
#pragma once

#include "kernels/algorithms/hierarchical.h"
#include "kernels/primitives.h"

namespace rondo {

// The part of a round that rail `owner` carries.
RONDO_FN constexpr Piece rail_piece(const Rounds& rounds, std::uint64_t round, int owner,
                                    int rails) {
  if (owner >= rails) return {0, 0, 0};
  const Slice part = part_of(rounds[round], owner, rails, rounds.grain);
  return {part.begin, part.begin - rounds[round].begin, part.count};
}

template <RelayingMemory H, class Cross>
RONDO_FN void hierarchical_broadcast(H& host, Cross& cross, const HostMap& map, int root,
                                     const Rounds& rounds, std::uint64_t longest) {
  const int n = host.size(), me = host.rank();
  const int first = map.host_of(root), root_here = map.local_of(root);
  const int place = (map.host + map.hosts - first) % map.hosts;
  const auto at = [&](int where) {
    return where < 0 || where >= map.hosts ? -1 : (first + where) % map.hosts;
  };
  const auto pass_on = [&](const Piece& mine) {
    if (mine.count == 0) return;
    auto&& links = cross.at(0);
    auto chain = links.between({at(place - 1), -1}, {at(place + 1), -1}, 0);
    const Slice part{mine.at, mine.count};
    for (std::uint64_t t = 0; t < chunks_of(part, longest); ++t)
      place == 0 ? chain.send_kept(chunk_of(part, t, longest))
                 : chain.recv_copy_send(chunk_of(part, t, longest));
  };

  if (place != 0) {  // a rank that delivers must know what its peers expose
    host.publish();
    wait_for_all(host);
  }
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Slice part = rounds[round];
    const Piece all{part.begin, 0, part.count};
    const int slot = slot_of(round);
    if (place == 0) {
      if (me == root_here) {
        host.open(slot);
        host.expose(slot, all);
        host.publish();
        host.copy_own(part.begin, part.begin, part.count);
      } else {
        host.publish();  // reports to the root that the previous round is read
        host.wait(root_here);
        host.copy(root_here, slot, all, part.begin);
      }
      pass_on(rail_piece(rounds, round, me, map.rails));
    } else {
      const Piece mine = rail_piece(rounds, round, me, map.rails);
      pass_on(mine);
      host.open(slot);
      host.expose_kept(slot, mine);
      host.publish();
      for (int k = 1; k < n; ++k) {
        const int owner = (me + k) % n;
        host.wait(owner);
        host.copy_result(owner, slot, rail_piece(rounds, round, owner, map.rails));
      }
    }
  }
  host.release();
}

template <RelayingMemory H, class Cross>
RONDO_FN void hierarchical_reduce(H& host, Cross& cross, const HostMap& map, int root,
                                  const Rounds& rounds, std::uint64_t longest) {
  const int n = host.size(), me = host.rank();
  const int last = map.host_of(root);
  const bool is_root = last == map.host && me == map.local_of(root);
  const int place = (map.host + map.hosts - last) % map.hosts;  // 1 sends first, 0 receives last
  const auto input_slot = [](std::uint64_t round) { return static_cast<int>(round % 2); };
  const auto sums_slot = [](std::uint64_t round) { return static_cast<int>(2 + round % 2); };
  const auto expose_round = [&](std::uint64_t round) {
    if (round == rounds.size()) return;
    host.open(input_slot(round));
    for (int owner = 0; owner < n; ++owner)
      host.expose(input_slot(round), rail_piece(rounds, round, owner, map.rails));
  };
  const auto add_up = [&](std::uint64_t round, const Piece& mine) {
    if (mine.count == 0) return;
    auto&& links = cross.in_slot(sums_slot(round));
    const int before = place == 1 ? -1 : (map.host + map.hosts - 1) % map.hosts;
    const int after = place == 0 ? -1 : (map.host + 1) % map.hosts;
    auto chain = links.between({before, -1}, {after, -1}, 0);
    const Slice part{mine.window, mine.count};
    for (std::uint64_t t = 0; t < chunks_of(part, longest); ++t) {
      const Chunk c = chunk_of(part, t, longest);
      if (place == 1) {
        chain.send_kept(c);
      } else if (place != 0) {
        chain.recv_reduce_send(c);
      } else {
        chain.recv_reduce_copy(c);
      }
    }
  };

  expose_round(0);
  host.publish();
  for (std::uint64_t round = 0; round < rounds.size(); ++round) {
    const Piece mine = rail_piece(rounds, round, me, map.rails);
    wait_for_all(host);
    host.open(sums_slot(round));
    host.reduce_kept(input_slot(round), mine, sums_slot(round), mine.window);
    expose_round(round + 1);
    add_up(round, mine);
    host.publish();
    for (int k = 0; k < n && is_root; ++k) {
      const int owner = (me + k) % n;
      if (owner != me) host.wait(owner);
      host.copy_kept(owner, sums_slot(round), rail_piece(rounds, round, owner, map.rails));
    }
  }
  host.release();
}

}  // namespace rondo
