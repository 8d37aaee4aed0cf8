// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/launch/call_steps.h"

#include <algorithm>

namespace rondo::gpu {

Segments segments_of(Collective which, int ranks) {
  switch (which) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return {ranks, 1};
    case Collective::kAllGather:
    case Collective::kGather:
      return {1, ranks};
    case Collective::kAllToAll:
      return {ranks, ranks};
    default:
      return {};
  }
}

CallSteps::CallSteps(const CallRecord& record, int ranks, const cuda::StagingShape& staging)
    : record_(record), segments_(segments_of(record.collective, ranks)) {
  // Number of elements that fit; in whole vectors if there are many, so that pieces stay aligned.
  constexpr std::uint64_t kRound = 64;
  const auto fitting = [&](int segments) {
    const std::uint64_t maximum =
        staging.quarter() / (static_cast<std::uint64_t>(segments) * size_of(record.type));
    return std::max<std::uint64_t>(maximum > kRound ? maximum / kRound * kRound : maximum, 1);
  };
  piece_ = fitting(std::max(segments_.sent, segments_.received));
  if (record.count > piece_ && record.collective == Collective::kReduceScatter) {
    // Reduced segments have the same distance in all inputs, staged or not, so one at a time.
    by_segment_ = true;
    piece_ = fitting(1);
  }
  if (record.count == 0) return;
  pieces_ = (record.count + piece_ - 1) / piece_;
  size_ = by_segment_ ? pieces_ * static_cast<std::uint64_t>(ranks) : pieces_;
}

cuda::CallStep CallSteps::operator[](std::uint64_t number) const {
  const std::uint64_t begin = number % pieces_ * piece_;
  return {by_segment_ ? static_cast<std::int64_t>(number / pieces_) : -1, begin,
          std::min(piece_, record_.count - begin)};
}

bool CallSteps::sends(int rank) const {
  if (record_.count == 0 || record_.collective == Collective::kBarrier) return false;
  const bool from_root =
      record_.collective == Collective::kBroadcast || record_.collective == Collective::kScatter;
  return !from_root || rank == record_.root;
}

bool CallSteps::receives(int rank, const cuda::CallStep& step) const {
  if (record_.count == 0 || record_.collective == Collective::kBarrier) return false;
  if (step.segment >= 0) return rank == step.segment;
  const bool to_root =
      record_.collective == Collective::kReduce || record_.collective == Collective::kGather;
  return !to_root || rank == record_.root;
}

Status CallSteps::copy(std::uint64_t number, bool in, const Buffers& user, std::byte* staged,
                       DirectLaunches* copies) const {
  const cuda::CallStep step = (*this)[number];
  const std::uint64_t width = size_of(record_.type);
  int segments = in ? segments_.sent : segments_.received;
  std::uint64_t bytes = step.count * width;
  if (step.segment < 0 && step.count == record_.count) {  // all segments are one range
    bytes *= static_cast<std::uint64_t>(segments);
    segments = std::min(segments, 1);
  }
  for (int k = 0; k < segments && bytes > 0; ++k) {
    const bool one = in && step.segment >= 0;
    if (one && k != step.segment) continue;
    const std::uint64_t at = (static_cast<std::uint64_t>(k) * record_.count + step.begin) * width;
    std::byte* const packed = staged + (one ? 0 : static_cast<std::uint64_t>(k) * bytes);
    RONDO_CHECK_OK(in ? copies->copy(static_cast<const std::byte*>(user.send) + at, packed, bytes)
                      : copies->copy(packed, static_cast<std::byte*>(user.receive) + at, bytes));
  }
  return ok_status();
}

}  // namespace rondo::gpu
