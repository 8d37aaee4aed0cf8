#include "collectives/gpu/process_agreement.h"

#include <algorithm>

#include "transport/shm/fd_passing.h"

namespace rondo::gpu {

int ProcessCircle::first_rank() const {
  return static_cast<int>(std::find(process_of.begin(), process_of.end(), process) -
                          process_of.begin());
}

Result<int> highest_of_all(const ProcessCircle& circle, int own) {
  if (!circle.leads()) {
    const int socket = circle.to_leader().get();
    RONDO_CHECK_OK(shm::send_fds(socket, own, {}, circle.deadline));
    RONDO_TRY(const shm::FdMessage all, shm::receive_fds(socket, circle.deadline));
    return all.value;
  }
  int highest = own;
  for (int p = 1; p < circle.processes(); ++p) {
    RONDO_TRY(const shm::FdMessage one,
              shm::receive_fds(circle.of_process(p).get(), circle.deadline));
    highest = std::max(highest, one.value);
  }
  for (int p = 1; p < circle.processes(); ++p)
    RONDO_CHECK_OK(shm::send_fds(circle.of_process(p).get(), highest, {}, circle.deadline));
  return highest;
}

Result<std::optional<Refusal>> refusal_of_any(const ProcessCircle& circle, const Done& own) {
  circle.note().put(own);
  RONDO_TRY(const int refused, highest_of_all(circle, own.ok() ? 0 : 1));
  if (refused == 0) return std::optional<Refusal>();
  return refusal_noted(*circle.segment);
}

std::optional<Refusal> refusal_noted(const ControlSegment& segment) {
  for (int place = 0; place < segment.ranks(); ++place) {
    const int rank = segment.rank_at(place);
    if (const MemoryNote& note = segment.offer(rank); note.status != 0)
      return Refusal{rank, {static_cast<Status>(note.status), note.text}};
  }
  return std::nullopt;
}

}  // namespace rondo::gpu
