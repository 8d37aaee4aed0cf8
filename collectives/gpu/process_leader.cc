// The leader's side of a collective of processes that share a GPU: waits, launches, DONE.
#include <algorithm>

#include "collectives/gpu/process_team.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// Ranks whose data one copy kernel moves: its items and targets are bounded.
int sources_at_once(Collective which, int ranks) {
  switch (which) {
    case Collective::kAllGather:
      return std::min(cuda::kMostCopies, cuda::kMostCopyTargets / ranks);
    case Collective::kAllToAll:
      return std::max(1, cuda::kMostCopies / ranks);
    default:
      return ranks;
  }
}

}  // namespace

Done ProcessTeam::lead(const Enqueued& call) {
  const auto steps = static_cast<std::uint32_t>(call.steps.size());
  std::uint32_t& inside = board_->party(0).ready;
  RONDO_CHECK_OK(write(call.stream, inside, 1));
  for (std::uint32_t j = 0; j < steps; ++j) {
    for (int p = 1; p < board_->parties(); ++p)
      RONDO_CHECK_OK(await(call.stream, board_->party(p).ready, j + 1, GpuWait::kGreaterOrEqual));
    RONDO_CHECK_OK(launch_step(call, j));
    for (int p = 1; p < board_->parties(); ++p) {
      // Before DONE: the process may begin its next call at once.
      if (j + 1 == steps) RONDO_CHECK_OK(write(call.stream, board_->party(p).ready, 0));
      RONDO_CHECK_OK(write(call.stream, board_->party(p).done, j + 1));
    }
  }
  return write(call.stream, inside, 0);
}

Done ProcessTeam::launch_step(const Enqueued& call, std::uint64_t number) {
  const CallRecord& record = call.record;
  const int n = ranks();
  const bool reduction = reduces(record.collective);
  const bool moves = record.count > 0 && record.collective != Collective::kBarrier;
  const int at_once = reduction || !moves ? n : sources_at_once(record.collective, n);
  // Where no rank is staged, the first step does the whole call: launched for all of it.
  const int kinds = reduction ? (record.collective == Collective::kReduceScatter ? n : 1) : at_once;
  const std::uint64_t bytes = record.count * size_of(record.type);
  for (int first = 0; first < n; first += at_once) {
    cuda::ResolveArgs resolve{};
    resolve.mailboxes = board_->on_device(board_->mailbox(0));
    resolve.descriptors = board_->on_device(board_->descriptor(0, 0));
    resolve.words = board_->on_device(board_->words());
    resolve.arguments = arguments_;
    resolve.record = record;
    resolve.staging = shape_;
    resolve.step = call.steps[number];
    resolve.number = number;
    resolve.depth = board_->depth();
    resolve.ranks = n;
    resolve.width = static_cast<std::int32_t>(size_of(record.type));
    resolve.first_source = first;
    resolve.end_source = std::min(n, first + at_once);
    resolve.reduces = reduction;
    resolve.last = number + 1 == call.steps.size() && first + at_once >= n;
    GpuLaunch launch;
    launch.kernel = cuda::kResolveKernel;
    launch.block = cuda::kMostDirectRanks;
    launch.shared_bytes = cuda::kMostDirectRanks * 32;
    launch.arguments = &resolve;
    launch.argument_bytes = sizeof(resolve);
    RONDO_CHECK_OK(check(api_.launch(launch, call.stream), "a kernel launch"));
    if (!moves) continue;
    DirectLaunches launches(api_, seats_.most_ctas, call.stream);
    RONDO_CHECK_OK(reduction ? launches.stored_reduce(record, arguments_, kinds)
                             : launches.stored_copy(bytes, arguments_, kinds));
  }
  return done();
}

}  // namespace rondo::gpu
