// SPDX-License-Identifier: Apache-2.0
#include "collectives/rank/connections.h"

#include <cassert>

#include "base/atomics.h"

namespace rondo {

Result<Connection*> Connections::to(int peer, int lane) { return get(peer, lane, true); }
Result<Connection*> Connections::from(int peer, int lane) { return get(peer, lane, false); }

Result<Connection*> Connections::get(int peer, int lane, bool outgoing) {
  assert(peer >= 0 && static_cast<std::size_t>(peer) < locals_.size());
  assert(lane >= 0 && lane < shm::HostSegment::kLanes);
  const int key = (peer * shm::HostSegment::kLanes + lane) * 2 + (outgoing ? 1 : 0);
  if (auto it = made_.find(key); it != made_.end()) return &it->second;
  const int local = locals_[peer];
  if (local < 0) {
    const int remote_lane = lane == kPutLane ? net::kPutLane : lane;
    RONDO_TRY(Connection * remote,
              outgoing ? links_->sender(peer, remote_lane) : links_->receiver(peer, remote_lane));
    return remote;
  }
  const int from = outgoing ? local_rank_ : local;
  const int to = outgoing ? local : local_rank_;
  if (outgoing) {
    RONDO_TRY(const std::size_t committed, segment_->commit_connection(from, to, lane));
    committed_bytes_ += committed;
    std::uint64_t& shown = segment_->activity(local_rank_)->memory.shared_bytes;
    HostAtomics::store_relaxed(shown, HostAtomics::load_relaxed(shown) + committed);
  }
  Connection connection = segment_->connection(from, to, lane);
  const PeerPort port = segment_->port(local);
  connection.peer = peer;
  connection.peer_bell = port.bell;
  connection.peer_parked = port.parked;
  connection.light = light_;
  return &made_.emplace(key, connection).first->second;
}

}  // namespace rondo
