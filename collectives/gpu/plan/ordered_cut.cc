// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/plan/ordered_cut.h"

#include <algorithm>
#include <cassert>

#include "kernels/host/leaf_tree.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kWholeUpTo = 64 << 10;  // bytes of all ranks' sums
constexpr std::uint64_t kSliceElements = 64;    // longer slices begin at multiples
constexpr std::uint64_t kPushUpTo = 1 << 20;    // bytes that all ranks push to one

}  // namespace

Result<OrderedCut> OrderedCut::make(const CallRecord& record, const LeafLayout& layout, int ranks,
                                    std::uint64_t room) {
  assert(is_ordered(record.collective) && record.count > 0 && ranks > 0);
  OrderedCut cut;
  cut.record = record;
  cut.layout = &layout;
  cut.ranks = ranks;
  cut.partial = host::partial_type(record.type, record.rounding());
  cut.scatters = record.collective == Collective::kReduceScatterOrdered;
  if (room == 0 || room > kScratchBytes) room = kScratchBytes;
  cut.piece = record.count;
  cut.whole = !cut.scatters && layout.all_subtrees() * record.count * cut.sum() <= kWholeUpTo;
  if (cut.whole && cut.scratch_bytes(cut.piece) > room) cut.whole = false;
  while (cut.piece > 1 && cut.scratch_bytes(cut.piece) > room) cut.piece = (cut.piece + 1) / 2;
  if (cut.scratch_bytes(cut.piece) <= kScratchBytes) return cut;
  return fail(StatusCode::kInvalidUsage,
              "{} : the sums of {} subtrees do not fit into {} bytes: give ranks aligned runs of "
              "leaves",
              rondo::name(record.collective), layout.all_subtrees(), kScratchBytes);
}

std::uint64_t OrderedCut::slice_elements(std::uint64_t piece_elements) const {
  if (scatters || whole) return piece_elements;
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t even = (piece_elements + n - 1) / n;
  if (even < kSliceElements) return even;
  return (even + kSliceElements - 1) / kSliceElements * kSliceElements;
}

OrderedCut::Slice OrderedCut::slice_of(const Piece& of, int rank) const {
  assert(rank >= 0 && rank < ranks);
  if (scatters || whole) return {0, has_result(rank) ? of.count : 0};
  const std::uint64_t each = slice_elements(of.count);
  const std::uint64_t begin = std::min(of.count, static_cast<std::uint64_t>(rank) * each);
  return {begin, std::min(of.count - begin, each)};
}

// At most, of any rank.
std::uint64_t OrderedCut::scratch_bytes(std::uint64_t piece_elements) const {
  const std::uint64_t slice = slice_elements(piece_elements);
  const std::uint64_t own = layout->max_subtrees() * piece_elements * parts();
  return (own + layout->all_subtrees() * slice) * sum() + slice * element() +
         (static_cast<std::uint64_t>(ranks) + 2) * kAreaBytes;
}

bool sums_as_plain(const DevicePlan& plan, const CallRecord& plain, int ranks) {
  const std::uint64_t bytes = plain.count * size_of(plain.type) * static_cast<std::uint64_t>(ranks);
  return plan.algorithm != Algorithm::kOneShot || bytes <= kPushUpTo;
}

}  // namespace rondo::gpu
