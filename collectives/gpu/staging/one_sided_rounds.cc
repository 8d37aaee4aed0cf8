// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/staging/one_sided_rounds.h"

#include <algorithm>

namespace rondo::gpu {

// The round of the peer's next call.
std::uint64_t OneSidedRounds::begin(Peer& peer) {
  if (calls_.size() <= peer.round) calls_.resize(peer.round + 1), copies_.resize(peer.round + 1);
  return peer.round;
}

void OneSidedRounds::add(const Call& call, const void* named) {
  Peer& peer = peers_[static_cast<std::size_t>(call.peer)];
  Call host;
  host.record.collective = Collective::kSignal;
  host.peer = call.peer;
  host.signal = call.signal;
  const std::uint64_t bytes = call.record.count * size_of(call.record.type);
  const bool puts = call.record.collective == Collective::kPut && bytes > 0;
  const bool by_network = puts && call.window >= 0;
  if (puts && !by_network) copies_[begin(peer)].push_back({call.send, call.receive, bytes});
  if (by_network) {
    host.record = {bytes, Collective::kPut, DataType::kUint8, RedOp::kSum, 0, -1};
    host.window = call.window;
    host.offset = call.offset;
    host.send = named;
    if (named == nullptr) {
      host.send = call.send;
      return add_pieces(host, peer);
    }
  }
  calls_[begin(peer)].push_back(host);
}

void OneSidedRounds::add_pieces(const Call& put, Peer& peer) {
  const auto* const from = static_cast<const std::byte*>(put.send);
  for (std::uint64_t done = 0; done < put.record.count;) {
    if (peer.used == share_) ++peer.round, peer.used = 0;
    const std::uint64_t round = begin(peer);
    const std::uint64_t bytes = std::min(put.record.count - done, share_ - peer.used);
    std::byte* const staged =
        staging_.input(round) + static_cast<std::uint64_t>(put.peer) * share_ + peer.used;
    copies_[round].push_back({from + done, staged, bytes});
    Call& piece = calls_[round].emplace_back(put);
    piece.record.count = bytes;
    piece.offset = put.offset + done;
    piece.send = staged;
    peer.used += bytes;
    done += bytes;
    if (done < put.record.count) piece.signal = -1;
  }
}

}  // namespace rondo::gpu
