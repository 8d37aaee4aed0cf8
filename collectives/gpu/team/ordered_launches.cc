// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/ordered_launches.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>

#include "collectives/gpu/calls/messages.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "kernels/cuda/kernels.h"
#include "kernels/host/leaf_tree.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kScratchBytes = OrderedCut::kScratchBytes;

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + OrderedCut::kAreaBytes - 1) / OrderedCut::kAreaBytes * OrderedCut::kAreaBytes;
}

std::byte* element_of(void* buffer, std::uint64_t at, std::uint64_t bytes) {
  return static_cast<std::byte*>(buffer) + at * bytes;
}

void add_sums(cuda::FoldArgs& args, const void* sums, LeafRun run) {
  args.holder[args.holders++] = {sums, run.first, run.n, 0};
}

void add_leaves(cuda::FoldArgs& args, const Call& call) {
  const auto h = static_cast<std::size_t>(args.holders++);
  args.holder[h] = {call.send, call.run.first, call.run.n, buffers_of(call).scalar};
  if (call.late_scalar != nullptr) args.late_scalars[h / 64] |= std::uint64_t{1} << (h % 64);
}

}  // namespace

Status OrderedLaunches::enqueue(const JointCall& call, Mismatch* mismatch) {
  const Call& first = call.posted.front().call;
  const CallRecord& record = first.record;
  assert(first.layout != nullptr && "agreed before it was posted");
  const auto holders = first.layout->order().size();
  if (holders > cuda::kMaxLeafHolders)
    return fail(StatusCode::kInvalidUsage,
                "{} : {} ranks have leaves, and on GPUs {} may: give each of these ranks more of "
                "them",
                rondo::name(record.collective), holders, cuda::kMaxLeafHolders);
  RONDO_TRY(const OrderedCut cut,
            OrderedCut::make(record, *first.layout, ranks(), team_.options.plan.message_bytes));
  const DeviceScope scope(team_.options.device);
  RONDO_CHECK_OK(scope.entered());
  if (max_ctas_ == 0) RONDO_CHECK_OK(prepare());
  if (team_.edges != nullptr) RONDO_CHECK_OK(take_scratch());
  const LaunchPosition site = team_.site_of_first(call);
  std::optional<StreamOrder::Turn> turn;
  if (!team_.is_hosted()) turn.emplace(team_.order, site.capture);
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  const Work work{&call, cut, site.stream, capturing(site.capture), mismatch};
  RONDO_CHECK_OK(team_.edges == nullptr ? sum_here(work) : run(work));
  return team_.end_launch(site);
}

Status OrderedLaunches::sum_into_result(JointCall& call) {
  assert(call.posted.size() == 1 && "another rank's leaves would be overwritten");
  PostedCall& own = call.posted.front();
  const CallRecord& record = own.call.record;
  const DeviceScope scope(team_.options.device);
  RONDO_CHECK_OK(scope.entered());
  if (max_ctas_ == 0) RONDO_CHECK_OK(prepare());
  const LaunchPosition site = team_.site_of_first(call);
  const StreamOrder::Turn turn(team_.order, site.capture);
  RONDO_CHECK_OK(team_.begin_launch(site, call));
  cuda::FoldArgs args{};
  args.leaves = true;
  args.count = args.slice = args.source_step = record.count;
  add_leaves(args, own.call);
  args.sums = 1;
  args.partials = own.call.receive;
  RONDO_CHECK_OK(launch(record, call.max_ctas(), site.stream, args));
  own.call.send = own.call.receive;
  own.call.send_windows = own.call.receive_windows;
  return team_.end_launch(site);
}

// All ranks are on the device: leaves to results.
Status OrderedLaunches::sum_here(const Work& work) {
  const std::uint64_t count = work.cut.record.count;
  cuda::FoldArgs args{};
  args.leaves = true;
  args.count = args.slice = count;
  args.source_step = count * work.cut.parts();
  for (const int rank : work.cut.layout->order()) add_leaves(args, call_of(work, rank));
  for (const int rank : team_.here) {
    if (!work.cut.has_result(rank)) continue;
    args.target[args.targets++] = call_of(work, rank).receive;
    if (!work.cut.scatters) continue;
    args.at = static_cast<std::uint64_t>(rank) * count;
    RONDO_CHECK_OK(launch(work, args));
    args.targets = 0;
  }
  return work.cut.scatters ? ok_status() : launch(work, args);
}

Status OrderedLaunches::run(const Work& work) {
  for (std::uint64_t at = 0; at < work.cut.record.count; at += work.cut.piece)
    RONDO_CHECK_OK(run_piece(work, {at, std::min(work.cut.piece, work.cut.record.count - at)}));
  return ok_status();
}

Status OrderedLaunches::run_piece(const Work& work, const Piece& piece) {
  std::vector<Areas> areas;
  for (const int rank : team_.here) {
    areas.push_back(areas_of(work, piece, rank));
    RONDO_CHECK_OK(sum_own(work, piece, rank, areas.back().own));
  }
  RONDO_CHECK_OK(exchange(work, piece, areas));
  for (const int rank : team_.here) RONDO_CHECK_OK(combine(work, piece, rank, areas));
  return work.cut.scatters || work.cut.whole ? ok_status() : distribute(work, piece, areas);
}

OrderedLaunches::Areas OrderedLaunches::areas_of(const Work& work, const Piece& piece,
                                                 int rank) const {
  const auto place = static_cast<std::size_t>(team_.place_of(rank));
  const std::uint64_t slice = work.cut.slice_of(piece, rank).count;
  const std::uint64_t parts = work.cut.parts();
  std::byte* at = scratch_[place].get();
  const auto take = [&](std::uint64_t bytes) {
    std::byte* const begin = at;
    at += aligned(bytes);
    assert(at <= scratch_[place].get() + kScratchBytes);
    return begin;
  };
  Areas areas;
  areas.own =
      take(work.cut.layout->subtrees_of(rank).size() * piece.count * parts * work.cut.sum());
  areas.result = take(slice * work.cut.element());
  areas.of_rank.assign(static_cast<std::size_t>(ranks()), nullptr);
  for (const int from : work.cut.layout->order())
    if (!team_.is_here(from))
      areas.of_rank[static_cast<std::size_t>(from)] =
          take(work.cut.layout->subtrees_of(from).size() * slice * work.cut.sum());
  return areas;
}

// The sums of rank `from`, which is here, of the slice of rank `to`.
std::byte* OrderedLaunches::own_sums(const Work& work, const Areas& areas, int from,
                                     const Slice& slice) const {
  return areas.own + work.cut.layout->subtrees_of(from).size() * slice.begin * work.cut.sum();
}

// ---- steps of a piece ----

Status OrderedLaunches::sum_own(const Work& work, const Piece& piece, int rank, std::byte* to) {
  const Call& call = call_of(work, rank);
  if (call.run.n == 0) return ok_status();
  const std::uint64_t parts = work.cut.parts();
  cuda::FoldArgs args{};
  args.leaves = true;
  args.count = piece.count * parts;
  args.slice = work.cut.slice_elements(piece.count);
  args.at = piece.at;
  args.slice_step = work.cut.scatters ? work.cut.record.count : args.slice;
  args.source_step = work.cut.record.count * parts;
  args.sums = static_cast<std::uint32_t>(work.cut.layout->subtrees_of(rank).size());
  args.partials = to;
  add_leaves(args, call);
  return launch(work, args);
}

Status OrderedLaunches::exchange(const Work& work, const Piece& piece,
                                 std::span<const Areas> areas) {
  std::vector<ProcessMessage> messages;
  const auto add = [&](int from, int to, std::byte* send, std::byte* receive, std::uint64_t count) {
    const std::uint64_t bytes = count * work.cut.layout->subtrees_of(from).size() * work.cut.sum();
    if (bytes == 0) return;
    const Collective side = send != nullptr ? Collective::kSend : Collective::kRecv;
    messages.push_back(
        {from, to, {bytes, side, DataType::kUint8, RedOp::kSum, 0, -1}, send, receive});
  };
  for (std::size_t place = 0; place < areas.size(); ++place) {
    const int own = team_.here[place];
    const std::uint64_t wanted = work.cut.slice_of(piece, own).count;
    for (int peer = 0; peer < ranks(); ++peer) {
      if (team_.is_here(peer)) continue;
      Slice theirs = work.cut.slice_of(piece, peer);
      const std::uint64_t count = theirs.count;
      if (work.cut.scatters) theirs.begin = static_cast<std::uint64_t>(peer) * piece.count;
      add(own, peer, own_sums(work, areas[place], own, theirs), nullptr, count);
      add(peer, own, nullptr, areas[place].of_rank[static_cast<std::size_t>(peer)], wanted);
    }
  }
  return send(work, messages);
}

Status OrderedLaunches::combine(const Work& work, const Piece& piece, int rank,
                                std::span<const Areas> areas) {
  Slice slice = work.cut.slice_of(piece, rank);
  if (slice.count == 0) return ok_status();
  cuda::FoldArgs args{};
  args.count = args.slice = args.source_step = slice.count;
  // Where its result goes: at slice.begin of the piece, in ranks that are here.
  const std::uint64_t to = (piece.at + slice.begin) * work.cut.element();
  const Areas& own = areas[static_cast<std::size_t>(team_.place_of(rank))];
  if (work.cut.scatters || work.cut.whole) {
    args.target[args.targets++] = static_cast<std::byte*>(call_of(work, rank).receive) + to;
  } else if (work.cut.record.root >= 0 && !team_.is_here(work.cut.record.root)) {
    args.target[args.targets++] = own.result;
  } else {
    for (const int other : team_.here)
      if (work.cut.has_result(other))
        args.target[args.targets++] = static_cast<std::byte*>(call_of(work, other).receive) + to;
  }
  if (work.cut.scatters) slice.begin = static_cast<std::uint64_t>(rank) * piece.count;
  for (const int from : work.cut.layout->order()) {
    const void* const sums =
        team_.is_here(from)
            ? own_sums(work, areas[static_cast<std::size_t>(team_.place_of(from))], from, slice)
            : own.of_rank[static_cast<std::size_t>(from)];
    add_sums(args, sums, work.cut.layout->run_of(from));
  }
  return launch(work, args);
}

Status OrderedLaunches::distribute(const Work& work, const Piece& piece,
                                   std::span<const Areas> areas) {
  std::vector<ProcessMessage> messages;
  const auto add = [&](int from, int to, std::byte* send, std::byte* receive, std::uint64_t count) {
    if (count == 0) return;
    const Collective side = send != nullptr ? Collective::kSend : Collective::kRecv;
    messages.push_back(
        {from, to, {count, side, work.cut.record.type, RedOp::kSum, 0, -1}, send, receive});
  };
  const auto result_at = [&](int rank, const Slice& slice) {
    return element_of(call_of(work, rank).receive, piece.at + slice.begin, work.cut.element());
  };
  for (std::size_t place = 0; place < areas.size(); ++place) {
    const int own = team_.here[place];
    const Slice mine = work.cut.slice_of(piece, own);
    for (int peer = 0; peer < ranks(); ++peer) {
      if (team_.is_here(peer)) continue;
      if (work.cut.has_result(peer))
        add(own, peer, work.cut.record.root < 0 ? result_at(own, mine) : areas[place].result,
            nullptr, mine.count);
      if (!work.cut.has_result(own)) continue;
      const Slice theirs = work.cut.slice_of(piece, peer);
      add(peer, own, nullptr, result_at(own, theirs), theirs.count);
    }
  }
  return send(work, messages);
}

Status OrderedLaunches::send(const Work& work, std::span<const ProcessMessage> messages) const {
  if (messages.empty()) return ok_status();
  RONDO_TRY(const TeamEdges::Enqueue enqueue,
            team_.edges->prepare(messages, work.captured, work.mismatch));
  return enqueue(work.stream);
}

Status OrderedLaunches::launch(const CallRecord& record, int max_ctas, GpuStream stream,
                               cuda::FoldArgs& args) {
  assert(args.holders > 0 && args.holders <= cuda::kMaxLeafHolders);
  args.type = record.type;
  args.op = record.op;
  args.once = host::partial_type(record.type, record.rounding()) != record.type;
  args.divisor = static_cast<std::int32_t>(record.leaves());
  const std::uint64_t wanted = (args.count + cuda::kFoldThreads - 1) / cuda::kFoldThreads;
  const int maximum = std::min(max_ctas_, max_ctas);
  GpuLaunch made;
  made.kernel = cuda::kFoldLeavesKernel;
  made.grid = static_cast<unsigned>(std::min<std::uint64_t>(wanted, maximum));
  made.block = cuda::kFoldThreads;
  made.shared_bytes = cuda::fold_shared(record.leaves());
  made.arguments = &args;
  made.argument_bytes = sizeof(args);
  return check(gpu_api()->launch(made, stream), "a kernel launch");
}

// Few programs make such calls, so the first one loads their kernel: 28,000 instructions.
Status OrderedLaunches::prepare() {
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(load_kernels({cuda::kFoldLeavesKernel}, {}));
  RONDO_TRY(max_ctas_, max_direct_ctas(team_.options.device));
  return ok_status();
}

Status OrderedLaunches::take_scratch() {
  const RelaxedCapture relaxed;
  while (scratch_.size() < team_.here.size()) {
    const int rank = team_.here[scratch_.size()];
    const auto allocate = [&] {
      return memory_registry().allocate_own(kScratchBytes, team_.options.device);
    };
    RONDO_TRY(OwnMemory made, team_.memory.with_room(allocate));
    team_.memory.add(rank, made.get(), kScratchBytes);
    scratch_.push_back(std::move(made));
  }
  return ok_status();
}

}  // namespace rondo::gpu
