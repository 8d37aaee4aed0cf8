// SPDX-License-Identifier: Apache-2.0
// OneSidedRounds: the puts and signals of a group of a rank on a GPU, as steps of the host
// (hosted_words.h): what the stream copies before each, and what the host then does.
//
// A put to a GPU that the stream reaches is a copy, then a signal. The network does a put to
// another host: from the put's own memory if the network has it, else from pinned staging, piece by
// piece. A peer has its own share of staging in each round. Guarantees: data to one peer stays in
// order; the signal goes with the last piece. Pure; costs some words to make.
//
//   OneSidedRounds rounds(staging, ranks);
//   for (const Call& call : calls) rounds.add(call, from_where_it_lies);
//   hosted.rounds = rounds.calls();      // copies(step) before each
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/context/call.h"
#include "collectives/gpu/staging/pinned_staging.h"

namespace rondo::gpu {

class OneSidedRounds {
 public:
  struct Copy {
    const void* from;
    void* to;
    std::uint64_t bytes;
  };

  OneSidedRounds(const PinnedStaging& staging, int ranks)
      : staging_(staging), share_(staging.piece_bytes(ranks)), peers_(ranks) {}

  // window >= 0: the network's number of the window, if the network does the put; else call.receive
  // is the place in the peer's window. named: the network's address of the bytes; null: it has
  // none.
  void add(const Call& call, const void* named);

  std::span<const Copy> copies(std::uint64_t round) const {
    return round < copies_.size() ? std::span<const Copy>(copies_[round]) : std::span<const Copy>();
  }
  const std::vector<std::vector<Call>>& calls() const { return calls_; }

 private:
  struct Peer {
    std::uint64_t round = 0, used = 0;  // used: bytes of its share in that round
  };
  std::uint64_t begin(Peer& peer);
  void add_pieces(const Call& put, Peer& peer);

  const PinnedStaging& staging_;
  const std::uint64_t share_;
  std::vector<Peer> peers_;
  std::vector<std::vector<Copy>> copies_;
  std::vector<std::vector<Call>> calls_;
};

}  // namespace rondo::gpu
