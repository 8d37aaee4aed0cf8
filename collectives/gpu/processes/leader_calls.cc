// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/leader_calls.h"

#include <algorithm>

#include "base/atomics.h"
#include "collectives/gpu/launch/strategies.h"
#include "collectives/gpu/processes/call_announcements.h"
#include "collectives/gpu/processes/process_context.h"
#include "collectives/gpu/staging/hosted_words.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// Number of ranks whose data one copy kernel moves; its items and targets are limited.
int sources_at_once(Collective which, int ranks) {
  switch (which) {
    case Collective::kAllGather:
      return std::min(cuda::kMaxCopies, cuda::kMaxCopyTargets / ranks);
    case Collective::kAllToAll:
      return std::max(1, cuda::kMaxCopies / ranks);
    default:
      return ranks;
  }
}

}  // namespace

LeaderCalls::LeaderCalls(ProcessContext& context, CallAnnouncements& announcements)
    : context_(context), announcements_(announcements) {}

Status LeaderCalls::open() {
  if (!context_.leads()) return ok_status();
  if (!context_.messages_are_kernels()) {
    RONDO_CHECK_OK(context_.memory->make_on_host());
  }
  RONDO_CHECK_OK(
      load_kernels({cuda::kResolveKernel, cuda::kStoredCopyKernel}, {cuda::stored_kernel}));
  static_assert(sizeof(cuda::CopyArgs) >= sizeof(cuda::ReduceArgs));
  RONDO_TRY(arguments_, allocate_on_device(sizeof(cuda::CopyArgs), "cudaMalloc"));
  return ok_status();
}

Status LeaderCalls::map_staging() {
  if (context_.leads() || context_.messages_are_kernels()) return ok_status();
  RONDO_TRY(staging_[static_cast<int>(cuda::StagingPlace::kHost)],
            context_.memory->staging(cuda::StagingPlace::kHost, context_.standing.deadline()));
  return ok_status();
}

Status LeaderCalls::enqueue(const CallRecord& record, std::span<const Buffers> buffers,
                            GpuStream stream, bool capturing, Mismatch* mismatch) {
  RONDO_CHECK_OK(context_.standing.check());
  auto place = cuda::StagingPlace::kHost;
  CallSteps steps(record, context_.ranks(), context_.memory->shape(place));
  if (context_.messages_are_kernels() || steps.size() > 1) {
    place = cuda::StagingPlace::kDevice;
    steps = CallSteps(record, context_.ranks(), context_.memory->shape(place));
  }
  std::uint64_t sequence = 0;
  if (!capturing) {
    RONDO_TRY(sequence, announcements_.next({commands_of(record, steps.size()), true}));
  }
  Enqueued call{record, buffers, stream, steps, place};
  std::vector<cuda::CallDescriptor> made;
  for (std::size_t i = 0; i < context_.local.size(); ++i) {
    auto described = describe(call, context_.local[i], buffers[i]);
    if (!described.ok()) {
      RONDO_CHECK_OK(context_.standing.check());  // has the better reason
      return described.error();
    }
    described->sequence = sequence;
    call.staged |= (described->flags & (cuda::CallDescriptor::kSendStaged |
                                        cuda::CallDescriptor::kReceiveStaged)) != 0;
    call.flags.push_back(described->flags);
    made.push_back(*described);
  }
  for (std::size_t i = 0; i < context_.local.size(); ++i) {
    RONDO_TRY(const std::uint32_t index, announcements_.place(context_.local[i], made[i]));
    RONDO_CHECK_OK(
        context_.write(stream, context_.segment->call_slot(context_.local[i]).descriptor, index));
  }
  if (sequence != 0) {
    announcements_.publish_for_leader(sequence);
    RONDO_CHECK_OK(announcements_.compare(sequence, record, mismatch));
  }
  return context_.leads() ? lead(call) : follow(call);
}

// At most: as if all buffers were staged.
std::uint64_t LeaderCalls::commands_of(const CallRecord& record, std::uint64_t steps) const {
  const std::uint64_t local = context_.local.size();
  const auto others = static_cast<std::uint64_t>(context_.segment->processes() - 1);
  if (!context_.leads()) return local + 2 + steps * (2 + 2 * local);
  const int n = context_.ranks();
  const int at_once = reduces(record.collective) ? n : sources_at_once(record.collective, n);
  const auto kernels = static_cast<std::uint64_t>((n + at_once - 1) / at_once);
  return local + 2 + others + steps * (2 * others + 2 * kernels);
}

Result<cuda::CallDescriptor> LeaderCalls::describe(const Enqueued& call, int rank,
                                                   const Buffers& buffers) {
  cuda::CallDescriptor made{};
  made.record = call.record;
  made.scalar = buffers.scalar;
  const std::size_t bytes = call.record.count * size_of(call.record.type);
  const cuda::CallStep whole{-1, 0, call.record.count};
  const auto find = [&](const void* pointer, std::size_t size) {
    return context_.blocks->at_leader(pointer, size, [&] { return context_.standing.deadline(); });
  };
  if (call.steps.sends(rank)) {
    RONDO_TRY(made.send, find(buffers.send, call.steps.segments_sent() * bytes));
    if (made.send == 0) made.flags |= cuda::CallDescriptor::kSendStaged;
  }
  if (call.steps.receives(rank, whole)) {
    RONDO_TRY(made.receive, find(buffers.receive, call.steps.segments_received() * bytes));
    if (made.receive == 0) made.flags |= cuda::CallDescriptor::kReceiveStaged;
  }
  if (buffers.late_scalar) made.flags |= cuda::CallDescriptor::kLateScalar;
  const bool scalar_moves = buffers.late_scalar && !context_.leads();
  const int place = static_cast<int>(call.place);
  if (staging_[place] == nullptr && (scalar_moves || made.flags != 0) && !context_.leads()) {
    RONDO_TRY(staging_[place], context_.memory->staging(call.place, context_.standing.deadline()));
  }
  if (scalar_moves) {
    made.scalar = HostAtomics::load_acquire(context_.segment->words().staging[place]) +
                  context_.memory->scalar_at(call.place, rank);
    RONDO_CHECK_OK(copy_scalar(rank, buffers, call));
  }
  return made;
}

// Copies between this process's buffers and staging.
DirectLaunches LeaderCalls::copies_of(const Enqueued& call, bool in) const {
  DirectLaunches copies(context_.facts.max_ctas, call.stream);
  if (call.place == cuda::StagingPlace::kHost)
    copies.copy_by_driver(in ? GpuCopy::kAny : GpuCopy::kHostToDevice);
  return copies;
}

// Copies a factor from this process's device memory to where the leader's kernel reads it.
Status LeaderCalls::copy_scalar(int rank, const Buffers& buffers, const Enqueued& call) {
  DirectLaunches copies = copies_of(call, true);
  RONDO_CHECK_OK(copies.copy(
      reinterpret_cast<const void*>(buffers.scalar),
      staging_[static_cast<int>(call.place)] + context_.memory->scalar_at(call.place, rank),
      size_of(call.record.type)));
  return copies.flush();
}

Status LeaderCalls::follow(const Enqueued& call) {
  ProcessLines& mine = context_.segment->process(context_.facts.process);
  const auto steps = static_cast<std::uint32_t>(call.steps.size());
  if (!call.staged) {
    RONDO_CHECK_OK(context_.write(call.stream, mine.ready, steps));
    RONDO_CHECK_OK(context_.await(call.stream, mine.done, steps, GpuWait::kGreaterOrEqual));
    return context_.write(call.stream, mine.done, 0);
  }
  struct Enqueuer {
    LeaderCalls& calls;
    const Enqueued& call;
    Status write(std::uint32_t& word, std::uint32_t value) const {
      return calls.context_.write(call.stream, word, value);
    }
    Status wait(std::uint32_t& word, std::uint32_t at_least) const {
      return calls.context_.await(call.stream, word, at_least, GpuWait::kGreaterOrEqual);
    }
    Status copy(std::uint64_t step, bool in) const { return calls.copy_step(call, step, in); }
  };
  return enqueue_staged_steps(mine.ready, mine.done, steps, Enqueuer{*this, call});
}

// Copies a step's input from the user's buffers to staging, or its output back.
Status LeaderCalls::copy_step(const Enqueued& call, std::uint64_t number, bool in) {
  const cuda::CallStep step = call.steps[number];
  const auto flag = in ? cuda::CallDescriptor::kSendStaged : cuda::CallDescriptor::kReceiveStaged;
  const cuda::StagingShape shape = context_.memory->shape(call.place);
  DirectLaunches copies = copies_of(call, in);
  for (std::size_t i = 0; i < context_.local.size(); ++i) {
    const int rank = context_.local[i];
    if ((call.flags[i] & flag) == 0 || (!in && !call.steps.receives(rank, step))) continue;
    const int owner = cuda::output_is_shared(call.record.collective) ? 0 : rank;
    std::byte* const staged = staging_[static_cast<int>(call.place)] +
                              (in ? shape.input(rank, number) : shape.output(owner, number));
    RONDO_CHECK_OK(call.steps.copy(number, in, call.buffers[i], staged, &copies));
  }
  return copies.flush();
}

Status LeaderCalls::lead(const Enqueued& call) {
  const auto steps = static_cast<std::uint32_t>(call.steps.size());
  std::uint32_t& inside = context_.segment->process(0).ready;
  RONDO_CHECK_OK(context_.write(call.stream, inside, 1));
  for (std::uint32_t j = 0; j < steps; ++j) {
    for (int p = 1; p < context_.segment->processes(); ++p)
      RONDO_CHECK_OK(context_.await(call.stream, context_.segment->process(p).ready, j + 1,
                                    GpuWait::kGreaterOrEqual));
    RONDO_CHECK_OK(launch_step(call, j));
    for (int p = 1; p < context_.segment->processes(); ++p) {
      // Reset before DONE: after DONE the process may begin its next call at once.
      if (j + 1 == steps)
        RONDO_CHECK_OK(context_.write(call.stream, context_.segment->process(p).ready, 0));
      RONDO_CHECK_OK(context_.write(call.stream, context_.segment->process(p).done, j + 1));
    }
  }
  return context_.write(call.stream, inside, 0);
}

Status LeaderCalls::launch_step(const Enqueued& call, std::uint64_t number) {
  const CallRecord& record = call.record;
  const int n = context_.ranks();
  const bool reduction = reduces(record.collective);
  const bool moves = record.count > 0 && record.collective != Collective::kBarrier;
  const int at_once = reduction || !moves ? n : sources_at_once(record.collective, n);
  // If no rank is staged, the first step does the whole call, so the launch is sized for all of it.
  const int kinds = reduction ? (record.collective == Collective::kReduceScatter ? n : 1) : at_once;
  const std::uint64_t bytes = record.count * size_of(record.type);
  const auto launch_kernel = [&](const LeaderKernel& kernel) -> Status {
    cuda::ResolveArgs resolve{};
    resolve.call_slots = context_.segment->on_device(context_.segment->call_slot(0));
    resolve.descriptors = context_.segment->on_device(context_.segment->descriptor(0, 0));
    resolve.words = context_.segment->on_device(context_.segment->words());
    resolve.arguments = arguments_.get();
    resolve.record = record;
    resolve.staging = context_.memory->shape(call.place);
    resolve.staging_place = call.place;
    resolve.step = call.steps[number];
    resolve.number = number;
    resolve.depth = context_.segment->depth();
    resolve.ranks = n;
    resolve.width = static_cast<std::int32_t>(size_of(record.type));
    resolve.first_source = kernel.first_source;
    resolve.end_source = kernel.end_source;
    resolve.reduces = reduction;
    resolve.is_signed = cuda::as_unsigned(record.type) != record.type;
    resolve.last = kernel.last;
    GpuLaunch launch;
    launch.kernel = cuda::kResolveKernel;
    launch.block = cuda::kMaxDirectRanks;
    launch.shared_bytes = cuda::kResolveShared;
    launch.arguments = &resolve;
    launch.argument_bytes = sizeof(resolve);
    RONDO_CHECK_OK(check(gpu_api()->launch(launch, call.stream), "a kernel launch"));
    if (!moves) return ok_status();
    DirectLaunches launches(context_.facts.max_ctas, call.stream);
    return reduction ? launches.stored_reduce(record, arguments_.get(), kinds)
                     : launches.stored_copy(bytes, arguments_.get(), kinds);
  };
  return for_each_leader_kernel(number, call.steps.size(), n, at_once, launch_kernel);
}

}  // namespace rondo::gpu
