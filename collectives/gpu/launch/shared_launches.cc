// SPDX-License-Identifier: Apache-2.0
// Devices share the work of the direct kernels.
//
// Shared: on staging that all of them reach, for calls whose buffers fit there. The kernels copy
// inputs in and outputs out themselves. Reductions of one kind are one launch, and so are up to 64
// copies.
// Windows: on all ranks' buffers, which are at equal offsets of symmetric windows
// (ncclCommWindowRegister). In an all-gather in place, where each rank's input has its own place,
// only device d moves what rank d sends; the same holds for its reduce-scatters: CTAs are assigned
// accordingly (direct.h).
#include <algorithm>
#include <array>
#include <span>

#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/launch/strategies.h"
#include "collectives/planner/device_work.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

using Slices = DirectLaunches::Slices;

// This rank's buffers; null if they have no part in the call.
Buffers own_sides(const DeviceLaunch& launch, const JointCall& call) {
  const int rank = launch.rank();
  const CallSteps steps(call.record, launch.connections.layout().ranks(),
                        {ConnectionLayout::kSharedStaging});
  Buffers own = launch.own(call);
  if (!steps.sends(rank)) own.send = nullptr;
  if (!steps.receives(rank, {-1, 0, call.record.count})) own.receive = nullptr;
  return own;
}

// Collects copies, in the order in which they meet.
class StagedCopies {
 public:
  StagedCopies(const DeviceLaunch& launch, const Slices& slices)
      : launch_(launch), slices_(slices) {
    const DeviceConnections& connections = launch.connections;
    const int ranks = connections.layout().ranks();
    for (int r = 0; r < ranks && ranks <= cuda::kArgumentDevices; ++r) {
      const auto staging = connections.shared_staging(r);
      args_.input[r] = staging.input;
      args_.output[r] = staging.output;
    }
    args_.slice = slices.bytes;
    args_.barrier = launch.barrier();
  }

  Status add(const JointCall& call) {
    if (args_.calls == cuda::kMaxStagedCopies) RONDO_CHECK_OK(flush());
    const CallRecord& record = call.record;
    const Segments segments = segments_of(record.collective, launch_.connections.layout().ranks());
    const std::uint64_t bytes = record.count * size_of(record.type);
    const auto shape = DirectLaunches::staged_shape(
        slices_, cuda::kDirectThreads, std::max(segments.sent, segments.received), bytes, 1);
    const Buffers own = own_sides(launch_, call);
    const auto k = static_cast<std::size_t>(args_.calls++);
    args_.bytes[k] = bytes;
    args_.listed[k] = {record, static_cast<std::uint16_t>(shape.ctas),
                       static_cast<std::uint16_t>(shape.block), 0};
    args_.staged[k] = {own.send, own.receive, shape.part};
    widest_ = {std::max(widest_.block, shape.block), std::max(widest_.ctas, shape.ctas), 0};
    return ok_status();
  }
  Status flush() {
    if (args_.calls == 0) return ok_status();
    Status launched = launch_.launch(cuda::kStagedCopyKernel, static_cast<int>(widest_.ctas),
                                     widest_.block, cuda::kBarrierShared, args_);
    args_.calls = 0;
    widest_ = {};
    return launched;
  }

 private:
  const DeviceLaunch& launch_;
  const Slices slices_;
  cuda::StagedCopyArgs args_{};
  DirectLaunches::StagedShape widest_{};
};

}  // namespace

// Peers may have other lists, so no call may depend on its list: each CTA has the same slice of
// staging in every call, and no CTA of another number touches it.
Status launch_shared(const DeviceLaunch& launch) {
  const DeviceConnections& connections = launch.connections;
  const ConnectionLayout& layout = connections.layout();
  RONDO_CHECK_OK(connections.lazy().need(ConnectionLayout::kStaging));
  const Slices slices{layout.shared_ctas(), layout.shared_slice(), ConnectionLayout::kSharedStaging,
                      layout.ranks()};
  std::array<Buffers, cuda::kMaxSharingDevices> buffers;
  for (int r = 0; r < layout.ranks(); ++r) {
    const auto staging = connections.shared_staging(r);
    buffers[static_cast<std::size_t>(r)] = {staging.input, staging.output};
  }
  const auto all = std::span(buffers).first(static_cast<std::size_t>(layout.ranks()));
  StagedCopies copies(launch, slices);
  DirectLaunches reductions(slices.ctas, launch.stream);
  reductions.meet(launch.barrier());
  // A long sum: one piece after another in the same staging, as calls of a list.
  const auto add_pieces = [&](const JointCall& call) -> Status {
    const CallRecord& record = call.record;
    const Buffers own = own_sides(launch, call);
    const std::uint64_t piece = staged_elements(slices.staging, record, slices.devices);
    for (std::uint64_t at = 0; at < record.count; at += piece)
      RONDO_CHECK_OK(reductions.staged_reduction(record, {at, std::min(piece, record.count - at)},
                                                 all, own, slices));
    return ok_status();
  };
  for (const JointCall* const call : launch.calls) {
    if (call->copies()) {
      RONDO_CHECK_OK(reductions.flush());
      RONDO_CHECK_OK(copies.add(*call));
    } else {
      RONDO_CHECK_OK(copies.flush());
      RONDO_CHECK_OK(add_pieces(*call));
    }
  }
  RONDO_CHECK_OK(copies.flush());
  return reductions.flush();
}

std::byte* in_window(const std::vector<std::byte*>& windows, const void* own, int self, int rank) {
  return windows[static_cast<std::size_t>(rank)] +
         (static_cast<const std::byte*>(own) - windows[static_cast<std::size_t>(self)]);
}

// Blocks must be whole vectors; the rest of an all-reduce is not a block. By the contract of
// symmetric windows, the result is equal on all ranks.
bool is_in_multicast_windows(const Call& call) {
  constexpr std::uintptr_t kVector = 16;
  const auto is_whole = [](std::uintptr_t n) { return n % kVector == 0; };
  return call.send_windows != nullptr && call.receive_windows != nullptr &&
         call.send_windows->back() != nullptr && call.receive_windows->back() != nullptr &&
         is_whole(reinterpret_cast<std::uintptr_t>(call.send)) &&
         is_whole(reinterpret_cast<std::uintptr_t>(call.receive)) &&
         (call.record.collective == Collective::kAllReduce ||
          is_whole(call.record.count * size_of(call.record.type)));
}

Status launch_windows(const DeviceLaunch& call) {
  DirectLaunches launches(call.barrier_ctas(), call.stream);
  launches.meet(call.barrier());
  const int n = call.connections.layout().ranks(), self = call.rank();
  std::array<Buffers, cuda::kMaxSharingDevices> buffers;
  for (const JointCall* const joint : call.calls) {
    const Buffers& own = call.own(*joint);
    for (int r = 0; r < n; ++r)
      buffers[static_cast<std::size_t>(r)] = {
          in_window(*own.send_windows, own.send, self, r),
          in_window(*own.receive_windows, own.receive, self, r)};
    RONDO_CHECK_OK(
        launches.collective(joint->record, std::span(buffers).first(static_cast<std::size_t>(n))));
  }
  return launches.flush();
}

// Multicast (NVLS): sums and copies through memory that a switch accesses on all devices at once:
// staging, or the callers' own.
namespace {

cuda::MulticastArgs::Call multicast_call(const DeviceLaunch& launch, const JointCall& call,
                                         int maximum) {
  const std::uint64_t units = call.units();
  const Buffers& own = launch.own(call);
  cuda::MulticastArgs::Call made{};
  made.record = call.record;
  made.count = call.record.count * units;
  made.per_round = call.plan.per_round * units;
  made.grain = call.plan.grain * static_cast<std::uint32_t>(units);
  made.channels = std::min(call.plan.channels, maximum);
  made.input = own.send;
  made.output = own.receive;
  if (!call.record.in_windows()) return made;
  const int ranks = launch.ranks();
  const auto of = [&](const std::vector<std::byte*>& windows, const void* buffer, int rank) {
    return in_window(windows, buffer, launch.rank(), rank);
  };
  made.all_input = of(*own.send_windows, own.send, ranks);
  made.all_output = of(*own.receive_windows, own.receive, ranks);
  for (int r = 0; r < ranks; ++r) made.outputs[r] = of(*own.receive_windows, own.receive, r);
  return made;
}

}  // namespace

Status launch_multicast(const DeviceLaunch& launch) {
  const int maximum = launch.barrier_ctas();
  cuda::MulticastArgs args{};
  int ctas = 0;
  for (const JointCall* const call : launch.calls) {
    if (call->record.count == 0) continue;
    args.call[args.calls] = multicast_call(launch, *call, maximum);
    ctas = std::max(ctas, args.call[args.calls++].channels);
  }
  if (args.calls == 0) return ok_status();
  args.rank = launch.rank();
  args.ranks = launch.ranks();
  args.own = launch.multicast->own();
  args.all = launch.multicast->all();
  args.barrier = launch.barrier();
  return launch.launch(launch.first().kernel(), ctas, launch.first().plan.threads,
                       cuda::kBarrierShared, args);
}

// Copies between devices by copy engines (CTA policy ZERO), in symmetric windows: the devices meet
// (kernels/cuda/direct_copy.cu), each writes what it sends into the receivers' windows, and they
// meet again. A rank writes at the place where its own buffer is in the window:
//
//   all-gather, all-to-all, broadcast   recvbuff
//   gather                              the root reads sendbuff; in place, where each rank's data
//                                       are a block of the root's recvbuff, it reads that
//   scatter                             recvbuff; in place, a block of the root's sendbuff
//
// Guarantees: also in graphs; a mismatch, death or deadline is noticed in the meetings. After that
// the copies still run, so windows may be written until all ranks' streams have ended. Cost: two
// launches of a CTA and a command a copy; a rank's own block, out of place, is a copy within its
// device.
namespace {

std::byte* at(std::byte* begin, int blocks, std::uint64_t bytes) {
  return begin + static_cast<std::uint64_t>(blocks) * bytes;
}
std::byte* at(const void* begin, int blocks, std::uint64_t bytes) {
  return at(static_cast<std::byte*>(const_cast<void*>(begin)), blocks, bytes);
}

// This rank's copies.
class EngineCopies {
 public:
  EngineCopies(const DeviceLaunch& launch, const JointCall& call)
      : stream_(launch.stream),
        record_(call.record),
        own_(launch.own(call)),
        bytes_(record_.count * size_of(record_.type)),
        self_(launch.rank()),
        ranks_(launch.ranks()) {}

  // Each rank begins with the next one, so that not all of them write to one at once.
  Status make() const {
    const bool is_root = record_.root == self_;
    for (int k = 1; k <= ranks_; ++k) {
      const int r = (self_ + k) % ranks_;
      switch (record_.collective) {
        case Collective::kAllGather:
          RONDO_CHECK_OK(copy(own_.send, at(received_by(r), self_, bytes_)));
          break;
        case Collective::kAllToAll:
          RONDO_CHECK_OK(copy(at(own_.send, r, bytes_), at(received_by(r), self_, bytes_)));
          break;
        case Collective::kBroadcast:
          if (is_root) RONDO_CHECK_OK(copy(own_.send, received_by(r)));
          break;
        case Collective::kGather:
          if (is_root) RONDO_CHECK_OK(copy(sent_by(r), at(own_.receive, r, bytes_)));
          break;
        case Collective::kScatter:
          if (is_root) RONDO_CHECK_OK(copy(at(own_.send, r, bytes_), scattered_to(r)));
          break;
        default:
          return fail(StatusCode::kInternalError, "copy engines do not run {}",
                      name(record_.collective));
      }
    }
    return ok_status();
  }

 private:
  Status copy(const void* from, std::byte* to) const {
    if (from == to) return ok_status();
    return check(gpu_api()->copy(to, from, bytes_, GpuCopy::kAny, stream_), "cudaMemcpyAsync");
  }
  std::byte* received_by(int rank) const {
    return in_window(*own_.receive_windows, own_.receive, self_, rank);
  }
  std::byte* sent_by(int rank) const {
    if (rank == self_) return at(own_.send, 0, bytes_);
    if (own_.receive_windows != nullptr) return at(received_by(rank), rank, bytes_);
    return in_window(*own_.send_windows, own_.send, self_, rank);
  }
  std::byte* scattered_to(int rank) const {
    if (rank == self_) return at(own_.receive, 0, bytes_);
    if (own_.send_windows == nullptr) return received_by(rank);
    return at(in_window(*own_.send_windows, own_.send, self_, rank), rank, bytes_);
  }

  const GpuStream stream_;
  const CallRecord& record_;
  const Buffers& own_;
  const std::uint64_t bytes_;
  const int self_, ranks_;
};

}  // namespace

bool is_in_engine_windows(const Call& call) {
  switch (call.record.collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kBroadcast:
      return call.receive_windows != nullptr;
    case Collective::kGather:
    case Collective::kScatter:
      return call.send_windows != nullptr || call.receive_windows != nullptr;
    default:
      return false;
  }
}

bool is_in_place_for_engines(const Call& call) {
  const Collective which = call.record.collective;
  return (which == Collective::kGather && call.receive_windows != nullptr) ||
         (which == Collective::kScatter && call.send_windows != nullptr);
}

Status launch_engines(const DeviceLaunch& call) {
  constexpr int kWarp = 32;
  const int threads = (call.ranks() + kWarp - 1) / kWarp * kWarp;
  cuda::MeetingArgs meeting{};
  meeting.barrier = call.barrier();
  const auto meet = [&](bool begins) -> Status {
    meeting.begins = begins;
    return call.launch(cuda::kMeetingKernel, 1, static_cast<unsigned>(threads),
                       cuda::kBarrierShared, meeting);
  };
  RONDO_CHECK_OK(meet(true));
  RONDO_CHECK_OK(EngineCopies(call, call.first()).make());
  return meet(false);
}

}  // namespace rondo::gpu
