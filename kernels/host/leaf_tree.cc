// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/leaf_tree.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "kernels/host/simd/reduce_kernels.h"

namespace rondo::host {
namespace {

constexpr std::size_t kPieceElements = 1024;
constexpr std::size_t kSlotBytes = kPieceElements * sizeof(double);

// Averages and PreMulSum are sums until finish(), and after load().
RedOp inner(RedOp op) { return op == RedOp::kAvg || op == RedOp::kPreMulSum ? RedOp::kSum : op; }

}  // namespace

std::vector<LeafRun> subtrees_of(LeafRun run) {
  assert(run.first + run.n >= run.first && "no more leaves than 32 bits count");
  std::vector<LeafRun> subtrees;
  for (std::uint32_t at = run.first; at < run.end();) {
    const std::uint32_t aligned = at == 0 ? std::bit_floor(run.n) : at & (~at + 1);
    const std::uint32_t n = std::min(aligned, std::bit_floor(run.end() - at));
    subtrees.push_back({at, n});
    at += n;
  }
  return subtrees;
}

DataType partial_type(DataType leaf, Rounding rounding) {
  if (rounding == Rounding::kNode || !is_float(leaf) || leaf == DataType::kFloat64) return leaf;
  return leaf == DataType::kFloat32 ? DataType::kFloat64 : DataType::kFloat32;
}

bool LeafTree::converts(bool leaves) const {
  return leaves && (sums_.partial != sums_.leaf || sums_.op == RedOp::kPreMulSum);
}

std::byte* LeafTree::slot(std::size_t index) {
  assert((index + 1) * kSlotBytes <= slots_.size());
  return slots_.data() + index * kSlotBytes;
}

// The elements of a source as partials: in place, or converted in the slot.
const std::byte* LeafTree::load(const LeafSource& source, const Piece& piece, std::size_t at_slot) {
  assert(source.data != nullptr && piece.count > 0 && piece.count <= kPieceElements);
  if (!converts(piece.leaves)) return source.data + piece.at * size_of(sums_.partial);
  const std::byte* in = source.data + piece.at * size_of(sums_.leaf);
  std::byte* const out = slot(at_slot);
  std::byte scaled[kPieceElements * sizeof(float)];  // of a type that is widened
  const bool widens = sums_.partial != sums_.leaf;
  if (sums_.op == RedOp::kPreMulSum) {
    std::byte* const product = widens ? scaled : out;
    scale(product, in, piece.count, sums_.leaf, sums_.scalar);
    in = product;
  }
  if (widens) widen(out, in, piece.count, sums_.leaf);
  return out;
}

// The sum of a subtree, in `target` if it has more than one source. Slots from `at_slot` on are
// free: one more for every level.
const std::byte* LeafTree::value_of(LeafRun root, std::span<const LeafSource> sources,
                                    const Piece& piece, std::size_t at_slot, std::byte* target) {
  assert(!sources.empty() && is_subtree(root));
  if (sources.size() == 1) return load(sources[0], piece, at_slot);
  const LeafRun left{root.first, root.n / 2}, right{root.first + root.n / 2, root.n / 2};
  const auto split = static_cast<std::size_t>(
      std::partition_point(sources.begin(), sources.end(),
                           [&](const LeafSource& one) { return one.run.first < right.first; }) -
      sources.begin());
  if (split == sources.size()) return value_of(left, sources, piece, at_slot, target);
  const void* const parts[] = {
      value_of(left, sources.first(split), piece, at_slot, slot(at_slot)),
      value_of(right, sources.subspan(split), piece, at_slot + 1, slot(at_slot + 1))};
  void* const targets[] = {target};
  reduce_function(sums_.partial, inner(sums_.op))({parts, 2, targets, 1, piece.count, 2, true, 0});
  return target;
}

void LeafTree::sum(LeafRun root, std::span<const LeafSource> sources, std::size_t count,
                   bool leaves, std::byte* target) {
  assert(!sources.empty() && is_subtree(root));
  assert(std::all_of(sources.begin(), sources.end(), [&](const LeafSource& one) {
    return is_subtree(one.run) && one.run.first >= root.first && one.run.end() <= root.end();
  }));
  const std::size_t element = size_of(sums_.partial);
  if (!converts(leaves) && sources.size() == 1)
    return copy_bytes(target, sources[0].data, count * element, false);
  const bool keeps_width = !is_float(sums_.partial) || element >= sizeof(float);
  const bool equal = std::all_of(sources.begin(), sources.end(), [&](const LeafSource& one) {
    return one.run.n * sources.size() == root.n;
  });
  if (!converts(leaves) && keeps_width && equal) {
    at_once_.clear();
    for (const LeafSource& one : sources) at_once_.push_back(one.data);
    void* const targets[] = {target};
    return reduce_function(sums_.partial, inner(sums_.op))(
        {at_once_.data(), static_cast<int>(at_once_.size()), targets, 1, count,
         static_cast<int>(at_once_.size()), true, 0});
  }
  const auto levels = static_cast<std::size_t>(std::bit_width(root.n));
  if (slots_.size() < (levels + 1) * kSlotBytes) slots_.resize((levels + 1) * kSlotBytes);
  for (std::size_t at = 0; at < count; at += kPieceElements) {
    const Piece piece{at, std::min(kPieceElements, count - at), leaves};
    std::byte* const to = target + at * element;
    const std::byte* const value = value_of(root, sources, piece, 0, to);
    if (value != to) copy_bytes(to, value, piece.count * element, false);
  }
}

void LeafTree::sum_leaves(LeafRun root, std::span<const LeafSource> sources, std::size_t count,
                          std::byte* target) {
  sum(root, sources, count, true, target);
}

void LeafTree::sum_partials(LeafRun root, std::span<const LeafSource> sources, std::size_t count,
                            std::byte* target) {
  sum(root, sources, count, false, target);
}

void LeafTree::finish(const std::byte* sum, std::size_t count, std::uint32_t leaves,
                      std::byte* result) {
  assert(leaves > 0 && (count == 0 || (sum != nullptr && result != nullptr)));
  const std::size_t in_element = size_of(sums_.partial), out_element = size_of(sums_.leaf);
  const bool narrows = sums_.partial != sums_.leaf;
  if (!narrows && sums_.op != RedOp::kAvg)
    return copy_bytes(result, sum, count * in_element, false);
  std::byte averaged[kSlotBytes];
  for (std::size_t at = 0; at < count; at += kPieceElements) {
    const std::size_t n = std::min(kPieceElements, count - at);
    const std::byte* value = sum + at * in_element;
    std::byte* const to = result + at * out_element;
    if (sums_.op == RedOp::kAvg) {
      const void* const sources[] = {value};
      void* const targets[] = {narrows ? averaged : to};
      reduce_function(sums_.partial,
                      RedOp::kAvg)({sources, 1, targets, 1, n, static_cast<int>(leaves), true, 0});
      value = static_cast<const std::byte*>(targets[0]);
    }
    if (narrows) narrow(to, value, n, sums_.leaf);
  }
}

}  // namespace rondo::host
