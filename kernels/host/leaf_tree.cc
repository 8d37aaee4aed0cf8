// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/leaf_tree.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/leaf_fold.h"

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
  for (std::uint32_t at = run.first; at < run.end(); at = subtrees.back().end())
    subtrees.push_back({at, std::uint32_t{1} << subtree_level(at, run.end())});
  return subtrees;
}

DataType partial_type(DataType leaf, Rounding rounding) {
  if (rounding == Rounding::kNode || !is_float(leaf) || leaf == DataType::kFloat64) return leaf;
  return leaf == DataType::kFloat32 ? DataType::kFloat64 : DataType::kFloat32;
}

bool LeafTree::converts(bool leaves) const {
  return leaves && (sums_.partial != sums_.leaf || sums_.op == RedOp::kPreMulSum);
}

// The elements of a source as partials: in place, or converted in the slot.
const std::byte* LeafTree::load(const std::byte* source, const Piece& piece,
                                std::byte* slot) const {
  assert(source != nullptr && piece.count > 0 && piece.count <= kPieceElements);
  if (!converts(piece.leaves)) return source + piece.at * size_of(sums_.partial);
  const std::byte* in = source + piece.at * size_of(sums_.leaf);
  std::byte scaled[kPieceElements * sizeof(float)];  // of a type that is widened
  const bool widens = sums_.partial != sums_.leaf;
  if (sums_.op == RedOp::kPreMulSum) {
    std::byte* const product = widens ? scaled : slot;
    scale(product, in, piece.count, sums_.leaf, sums_.scalar);
    in = product;
  }
  if (widens) widen(slot, in, piece.count, sums_.leaf);
  return slot;
}

// What LeafFold combines: pieces in sources, in the slots, and in the target if they are the
// root's.
class LeafTree::Halves {
 public:
  Halves(LeafTree& tree, const Piece& piece)
      : tree_(tree),
        piece_(piece),
        reduce_(reduce_function(tree.sums_.partial, inner(tree.sums_.op))) {}

  // Where the value of 2^level leaves from `leaf` on may be made: a left half's stays there.
  std::byte* place_of(std::uint32_t leaf, int level) const {
    if (std::uint32_t{1} << level == piece_.root.n) return piece_.target;
    const bool is_left = (leaf >> level & 1) == 0;
    const auto slot = static_cast<std::size_t>(is_left ? level : levels());
    assert((slot + 1) * kSlotBytes <= tree_.slots_.size());
    return tree_.slots_.data() + slot * kSlotBytes;
  }
  void keep(int level, const std::byte* value) { at_[level] = value; }
  const std::byte* combine(std::uint32_t leaf, int level, const std::byte* right) {
    const void* const halves[] = {at_[level], right};
    std::byte* const to = place_of(leaf, level + 1);
    void* const targets[] = {to};
    reduce_({halves, 2, targets, 1, piece_.count, 2, true, 0});
    return to;
  }
  static void write(const std::byte* /*value*/) { assert(!"sources begin with the root's leaves"); }

  // Of all sources: right halves that no source holds are left out.
  const std::byte* all(std::uint32_t waiting) {
    assert(waiting != 0);
    const std::byte* value = at_[std::countr_zero(waiting)];
    for (waiting &= waiting - 1; waiting != 0;) {
      const int level = std::countr_zero(waiting);
      waiting &= waiting - 1;
      value = combine(waiting, level, value);  // a right half where one still waits above
    }
    return value;
  }

 private:
  int levels() const { return std::bit_width(piece_.root.n) - 1; }

  LeafTree& tree_;
  const Piece& piece_;
  ReduceFn reduce_;
  const std::byte* at_[32];
};

// In the piece's target, or where a source holds it.
const std::byte* LeafTree::sum_piece(std::span<const LeafSource> sources, const Piece& piece) {
  Halves halves(*this, piece);
  LeafFold order;
  for (const LeafSource& source : sources) {
    const std::uint32_t leaf = source.run.first - piece.root.first;
    const int level = std::countr_zero(source.run.n);
    order.add(halves, load(source.data, piece, halves.place_of(leaf, level)), leaf, level);
  }
  return halves.all(order.waiting);
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
  const std::size_t slots = static_cast<std::size_t>(std::bit_width(root.n));
  if (slots_.size() < slots * kSlotBytes) slots_.resize(slots * kSlotBytes);
  for (std::size_t at = 0; at < count; at += kPieceElements) {
    const Piece piece{root, at, std::min(kPieceElements, count - at), leaves,
                      target + at * element};
    const std::byte* const value = sum_piece(sources, piece);
    if (value != piece.target) copy_bytes(piece.target, value, piece.count * element, false);
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
