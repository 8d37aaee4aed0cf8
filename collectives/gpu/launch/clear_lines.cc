// SPDX-License-Identifier: Apache-2.0
// Clears new memory for a call's lines on the call's stream (kernels/cuda/clear_lines.h). All
// devices launch that before the same call, because they plan alike and their memory is new after
// the same calls.
#include <algorithm>
#include <optional>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"

namespace rondo::gpu {
namespace {

using Block = ConnectionLayout::Block;

std::optional<Block> lines_of(const PlannedCall& call) {
  if (call.plan.strategy == Strategy::kLLPush) return ConnectionLayout::kPushLines;
  if (call.plan.strategy != Strategy::kConnected || call.plan.protocol == cuda::Protocol::kSimple)
    return std::nullopt;
  return ConnectionLayout::slots_block(call.plan.protocol);
}

}  // namespace

bool finds_lines_clear(const DeviceConnections* connections, const PlannedCall& call) {
  const std::optional<Block> block = lines_of(call);
  return !block || connections == nullptr || connections->lazy().is_clear(*block);
}

Status clear_lines(const DeviceLaunch& launch, bool captures) {
  const DeviceConnections& connections = launch.connections;
  if (finds_lines_clear(&connections, launch.first())) return ok_status();
  const Block block = *lines_of(launch.first());
  LazyBlocks& lazy = connections.lazy();
  RONDO_CHECK_OK(lazy.need(block));
  const int rank = launch.rank();
  cuda::ClearLinesArgs args{};
  args.lines = lazy.at(block, rank);
  args.bytes = lazy.bytes(block, rank);
  args.generation = lazy.generation();
  args.cleared = connections.cleared(rank, block);
  args.barrier = launch.barrier();
  const int ctas = std::min(cuda::kClearCtas, launch.barrier_ctas());
  RONDO_CHECK_OK(launch.launch(cuda::kClearLinesKernel, ctas, cuda::kDirectThreads,
                               cuda::kBarrierShared, args));
  // A captured kernel runs when its graph does: later calls launch it too, in vain if it has run.
  if (!captures) lazy.set_clear(block);
  return ok_status();
}

}  // namespace rondo::gpu
