// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ll_push_args.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

cuda::ConnectedArgs::Call listed(const JointCall& call) {
  const std::uint64_t units = call.units();
  return {.record = call.record,
          .count = call.record.count * units,
          .per_round = call.plan.per_round * units,
          .slice = call.plan.slice * units,
          .algorithm = call.plan.algorithm,
          .protocol = call.plan.protocol,
          .channels = static_cast<std::uint8_t>(call.plan.channels),
          .one_tree = call.plan.one_tree};
}

// Threads of a CTA: the maximum over the calls.
unsigned threads_of(JointCalls calls) {
  unsigned maximum = 0;
  for (const JointCall* const call : calls) maximum = std::max(maximum, call->plan.threads);
  return maximum;
}

}  // namespace

Status launch_connected(const DeviceLaunch& launch) {
  const DeviceConnections& connections = launch.connections;
  if (!cuda::ConnectedArgs::has_room(launch.here.size(), launch.calls.size()))
    return fail(StatusCode::kInternalError, "{} calls of {} ranks of one device in one launch",
                launch.calls.size(), launch.here.size());
  for (const JointCall* const call : launch.calls)
    RONDO_CHECK_OK(connections.lazy().need(ConnectionLayout::slots_block(call->plan.protocol)));
  cuda::ConnectedArgs args{};
  args.ranks = launch.ranks();
  args.stations = static_cast<std::uint8_t>(launch.here.size());
  args.calls = static_cast<std::uint8_t>(launch.calls.size());
  args.groups = static_cast<std::uint8_t>(launch.first().plan.groups);
  for (int s = 0; s < args.stations; ++s) {
    const int rank = launch.here[static_cast<std::size_t>(s)];
    args.station(s) = {connections.ends(rank), connections.control(rank),
                       connections.launches(rank), rank,
                       static_cast<std::uint32_t>(connections.layout().orders_at())};
  }
  for (int k = 0; k < args.calls; ++k) {
    const JointCall& call = *launch.calls[static_cast<std::size_t>(k)];
    args.call(k) = listed(call);
    args.channels = std::max(args.channels, args.call(k).channels);
    // A buffer that a rank does not have (output of reduce, input of broadcast) is never used.
    for (int s = 0; s < args.stations; ++s) {
      const Buffers& own = call.buffers[static_cast<std::size_t>(s)];
      args.put_buffers(k, s, {own.send, own.receive, own.scalar}, own.late_scalar);
    }
  }
  return launch.launch(launch.first().kernel(), args.channels * args.stations,
                       threads_of(launch.calls), cuda::kConnectedShared, args);
}

// LL push: small calls as lines that every rank pushes into all other ranks' memory.
Status launch_ll_push(const DeviceLaunch& launch) {
  const DeviceConnections& connections = launch.connections;
  const JointCall& first = launch.first();
  const int rank = launch.rank();
  cuda::LLPushArgs args{};
  int ctas = 0;
  unsigned threads = 0;
  for (const JointCall* const listed : launch.calls) {
    const JointCall& call = *listed;
    if (call.record.count == 0) continue;
    const Buffers& own = launch.own(call);
    args.call[args.calls++] = {
        call.record, call.record.count * call.units(), own.send,          own.receive,
        own.scalar,  own.late_scalar ? 1 : 0,          call.plan.channels};
    ctas = std::max(ctas, call.plan.channels);
    threads = std::max(threads, call.plan.threads);
  }
  if (args.calls == 0) return ok_status();
  RONDO_CHECK_OK(connections.lazy().need(ConnectionLayout::kPushLines));
  // Equal for all calls of one kernel.
  args.per_round = first.plan.per_round * first.units();
  args.grain = first.plan.grain * static_cast<std::uint32_t>(first.units());
  args.rank = rank;
  args.ranks = launch.ranks();
  args.rounds = connections.rounds(rank);
  args.launches = connections.launches(rank);
  args.peers = connections.peers(rank);
  for (int r = 0; r < args.ranks && args.ranks <= cuda::kLLPushAtOnce; ++r)
    args.staging[r] = connections.staging(r);
  args.control = connections.control(rank);
  const CallRecord& record = first.record;
  const int wide = first.copies() ? cuda::kWideLLPushCopyKernel
                                  : cuda::wide_ll_push_kernel(record.type, record.op);
  return launch.launch(args.ranks > cuda::kNarrowRanks ? wide : first.kernel(), ctas, threads,
                       cuda::kLLPushShared, args);
}

// Clears new memory for a call's lines on the call's stream (kernels/cuda/clear_lines.h). All
// devices launch that before the same call, because they plan alike and their memory is new after
// the same calls.
namespace {

using Block = ConnectionLayout::Block;

std::optional<Block> lines_of(const JointCall& call) {
  if (call.plan.strategy == Strategy::kLLPush) return ConnectionLayout::kPushLines;
  if (call.plan.strategy != Strategy::kConnected || call.plan.protocol == cuda::Protocol::kSimple)
    return std::nullopt;
  return ConnectionLayout::slots_block(call.plan.protocol);
}

}  // namespace

bool finds_lines_clear(const DeviceConnections* connections, const JointCall& call) {
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
