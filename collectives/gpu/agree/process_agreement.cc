// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/agree/process_agreement.h"

#include <algorithm>

#include "transport/shm/unix_socket.h"

namespace rondo::gpu {

int ProcessPeers::first_rank() const {
  return static_cast<int>(std::find(process_of.begin(), process_of.end(), process) -
                          process_of.begin());
}

Result<int> highest_of_all(const ProcessPeers& peers, int own) {
  if (!peers.leads()) {
    const int socket = peers.to_leader().get();
    RONDO_CHECK_OK(shm::send_fds(socket, own, {}, peers.deadline));
    RONDO_TRY(const shm::FdMessage all, shm::receive_fds(socket, peers.deadline));
    return all.value;
  }
  int highest = own;
  for (int p = 1; p < peers.processes(); ++p) {
    RONDO_TRY(const shm::FdMessage one,
              shm::receive_fds(peers.of_process(p).get(), peers.deadline));
    highest = std::max(highest, one.value);
  }
  for (int p = 1; p < peers.processes(); ++p)
    RONDO_CHECK_OK(shm::send_fds(peers.of_process(p).get(), highest, {}, peers.deadline));
  return highest;
}

Result<std::optional<Refusal>> refusal_of_any(const ProcessPeers& peers, const Status& own) {
  peers.note().put(own);
  RONDO_TRY(const int refused, highest_of_all(peers, own.ok() ? 0 : 1));
  if (refused == 0) return std::optional<Refusal>();
  return refusal_noted(*peers.segment);
}

std::optional<Refusal> refusal_noted(const ControlSegment& segment) {
  for (int place = 0; place < segment.ranks(); ++place) {
    const int rank = segment.rank_at(place);
    if (const MemoryNote& note = segment.offer(rank); note.status != 0)
      return Refusal{rank, {static_cast<StatusCode>(note.status), note.text}};
  }
  return std::nullopt;
}

}  // namespace rondo::gpu
