// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/ordered_calls.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "collectives/planner/planner.h"
#include "collectives/planner/tuning.h"

namespace rondo {
namespace {

constexpr std::size_t kPieceBytes = 2 << 20;  // of a buffer for one piece of a call
constexpr std::size_t kSliceElements = 64;    // slices begin at multiples: on cache lines

Call message(Collective which, int peer, DataType type, std::size_t count, const std::byte* from,
             std::byte* to) {
  Call call;
  call.record = {count, which, type, RedOp::kSum, 0, -1};
  call.peer = peer;
  call.send = from;
  call.receive = to;
  return call;
}

void grow(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
}

}  // namespace

std::size_t OrderedCalls::parts_of_leaf() const {
  return sum_.plain == Collective::kReduceScatter ? static_cast<std::size_t>(members_.size) : 1;
}

bool OrderedCalls::has_result(const Call& call) const {
  return sum_.plain != Collective::kReduce || call.record.root == members_.rank;
}

std::size_t OrderedCalls::piece_elements(std::size_t bytes_of_element, std::size_t count) const {
  assert(bytes_of_element > 0);
  const std::size_t fits = std::max<std::size_t>(kPieceBytes / bytes_of_element, kSliceElements);
  return std::min(count, fits / kSliceElements * kSliceElements);
}

const OrderedCalls::Planned* OrderedCalls::plan(const CallRecord& step) {
  const Planned* planned = plans_.find(step);
  if (planned == nullptr) planned = make(step);
  // By owners is what these calls do themselves.
  return planned == nullptr || planned->plan.strategy == Strategy::kOwners ? nullptr : planned;
}

const OrderedCalls::Planned* OrderedCalls::make(const CallRecord& step) {
  PlanFacts in_order = facts_;
  in_order.reproducible = true;
  in_order.algorithms = {};
  in_order.protocols = {};
  const Result<Plan> made = make_plan(in_order, step);
  if (!made.ok()) return nullptr;
  return &plans_.put(step, {*made, host_work(facts_, step, *made).moving_ns(facts_.costs)});
}

Status OrderedCalls::run_step(const Call& step, const CallRecord& whole) {
  const Planned* const planned = plan(step.record);
  if (planned != nullptr) return steps_.run(step, *planned, whole);
  return fail(StatusCode::kInternalError, "no plan for {}", to_string(step.record));
}

// Which leaves each rank holds.
Status OrderedCalls::agree_on_layout(const Call& call, std::size_t sum_bytes) {
  const auto ranks = static_cast<std::size_t>(members_.size);
  runs_.resize(ranks);
  if (ranks == 1) {
    runs_[0] = call.run;
  } else {
    const std::size_t of_rank = sum_bytes + sizeof(LeafRun);
    grow(mine_, of_rank);
    grow(theirs_, of_rank * ranks);
    // A run that is not of this tree is an error, which all ranks find below.
    if (sum_bytes > 0 && host::is_subtree(call.run) && call.run.end() <= call.record.leaves())
      for (std::size_t part = 0; part < parts_of_leaf(); ++part)
        sum_subtree(call, call.run, {part, 0, call.record.count},
                    mine_.data() + part * call.record.count * size_of(sum_.partial));
    std::memcpy(mine_.data() + sum_bytes, &call.run, sizeof(LeafRun));
    Call gather;
    gather.record = {of_rank, Collective::kAllGather, DataType::kUint8, RedOp::kSum, 0, -1};
    gather.send = mine_.data();
    gather.receive = theirs_.data();
    RONDO_CHECK_OK(run_step(gather, call.record));
    for (std::size_t r = 0; r < ranks; ++r)
      std::memcpy(&runs_[r], theirs_.data() + r * of_rank + sum_bytes, sizeof(LeafRun));
  }
  const Status set = layout_.set(runs_, call.record.leaves());
  if (set.ok()) return ok_status();
  return fail(set.code(), "{} : {}", name(call.record.collective), set.error().text);
}

void OrderedCalls::sum_own(const Call& call, const Slice& slice, std::byte* to) {
  assert(slice.part < parts_of_leaf() && slice.at + slice.count <= call.record.count);
  for (const LeafRun subtree : layout_.subtrees_of(members_.rank)) {
    sum_subtree(call, subtree, slice, to);
    to += slice.count * size_of(sum_.partial);
  }
}

void OrderedCalls::sum_subtree(const Call& call, LeafRun subtree, const Slice& slice,
                               std::byte* to) {
  const std::size_t leaf_element = size_of(call.record.type);
  const std::size_t stride = call.record.count * parts_of_leaf() * leaf_element;
  assert(subtree.first >= call.run.first && subtree.end() <= call.run.end());
  const auto* from = static_cast<const std::byte*>(call.send) +
                     (slice.part * call.record.count + slice.at) * leaf_element;
  sources_.clear();
  for (std::uint32_t leaf = subtree.first; leaf < subtree.end(); ++leaf)
    sources_.push_back({{leaf, 1}, from + (leaf - call.run.first) * stride});
  tree_.sum_leaves(subtree, sources_, slice.count, to);
}

void OrderedCalls::begin(const Call& call, Collective plain, Rounding rounding,
                         std::uint32_t leaves) {
  sum_ = {plain,
          rounding,
          leaves,
          {0, std::bit_ceil(leaves)},
          host::partial_type(call.record.type, rounding)};
  tree_.use({call.record.type, sum_.partial, call.record.op, call.scalar.data()});
}

Status OrderedCalls::run(const Call& call) {
  assert(is_ordered(call.record.collective) && call.record.count > 0);
  const CallRecord& record = call.record;
  begin(call, plain_of(record.collective), record.rounding(), record.leaves());
  // In whole words, so that the next rank's sums are aligned.
  const std::size_t sums = size_of(sum_.partial) * record.count * parts_of_leaf(),
                    of_rank = (sums + 7) / 8 * 8;
  const bool at_once = of_rank * static_cast<std::size_t>(members_.size) <= tuning::kOrderedAtOnce;
  RONDO_CHECK_OK(agree_on_layout(call, at_once ? of_rank : 0));
  if (!at_once || members_.size == 1 || layout_.max_subtrees() > 1) return sum_up(call);
  if (has_result(call)) combine_gathered(call, of_rank + sizeof(LeafRun), 1);
  return ok_status();
}

Status OrderedCalls::run_plain(const Call& call) {
  assert(reduces(call.record.collective) && call.record.count > 0);
  const auto ranks = static_cast<std::uint32_t>(members_.size);
  const bool narrow = size_of(call.record.type) < sizeof(float);
  begin(call, call.record.collective, narrow ? Rounding::kOnce : Rounding::kNode, ranks);
  runs_.resize(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) runs_[r] = {r, 1};
  RONDO_CHECK_OK(layout_.set(runs_, ranks));
  Call leaf = call;
  leaf.run = runs_[static_cast<std::size_t>(members_.rank)];
  return sum_up(leaf);
}

Status OrderedCalls::sum_up(const Call& call) {
  const std::size_t count = call.record.count, max_sums = layout_.max_subtrees();
  const std::size_t of_element =
      size_of(sum_.partial) * std::max<std::size_t>(max_sums, 1) * parts_of_leaf();
  if (members_.size > 1) {
    RONDO_TRY(const bool done, run_along_ranks(call));
    if (done) return ok_status();
    if (of_element * count <= tuning::kOrderedGathered) return run_gathered(call);
  }
  const std::size_t piece = piece_elements(of_element, count);
  for (std::size_t at = 0; at < count; at += piece)
    RONDO_CHECK_OK(run_by_owners(call, {at, std::min(piece, count - at)}));
  return ok_status();
}

// False: this layout or type needs another way.
Result<bool> OrderedCalls::run_along_ranks(const Call& call) {
  if (!layout_.along_ranks()) return false;
  const CallRecord& record = call.record;
  const bool one_leaf = call.run.n == 1;
  const bool narrow = is_float(record.type) && size_of(record.type) < sizeof(float);
  Call step;
  step.record = {record.count, sum_.plain, record.type, record.op, 0, record.root};
  step.scalar = call.scalar;
  // One leaf a rank: the plain call is the whole, if it rounds alike. Two leaves have one node.
  if (one_leaf && (sum_.partial == record.type || narrow)) {
    const Planned* const planned = plan(step.record);
    const bool one_rounding =
        sum_.rounding == Rounding::kOnce || (sum_.root.n == 2 && record.op != RedOp::kAvg);
    if (planned != nullptr && (!narrow || (planned->plan.in_memory() && one_rounding))) {
      step.send = call.send;
      step.receive = call.receive;
      RONDO_CHECK_OK(run_step(step, record));
      return true;
    }
  }
  step.record.type = sum_.partial;
  step.record.op =
      record.op == RedOp::kAvg || record.op == RedOp::kPreMulSum ? RedOp::kSum : record.op;
  const std::size_t element = size_of(sum_.partial), parts = parts_of_leaf();
  const std::size_t piece = piece_elements(element * parts, record.count);
  step.record.count = piece;
  const bool narrow_sums = is_float(sum_.partial) && element < sizeof(float);
  if (plan(step.record) == nullptr || (narrow_sums && sum_.root.n > 2)) return false;
  // Sums that need nothing more may go to their place at once.
  const bool in_place = sum_.partial == record.type && record.op != RedOp::kAvg;
  grow(mine_, piece * parts * element);
  grow(combined_, piece * element);
  for (std::size_t at = 0; at < record.count; at += piece) {
    const std::size_t count = std::min(piece, record.count - at);
    for (std::size_t part = 0; part < parts; ++part)
      sum_own(call, {part, at, count}, mine_.data() + part * count * element);
    std::byte* const result =
        has_result(call) ? static_cast<std::byte*>(call.receive) + at * size_of(record.type)
                         : nullptr;
    step.record.count = count;
    step.send = mine_.data();
    step.receive = in_place && result != nullptr ? result : combined_.data();
    RONDO_CHECK_OK(run_step(step, record));
    if (!in_place && result != nullptr) tree_.finish(combined_.data(), count, sum_.divisor, result);
  }
  return true;
}

// Every rank receives all sums, and combines what it needs.
Status OrderedCalls::run_gathered(const Call& call) {
  const CallRecord& record = call.record;
  const std::size_t element = size_of(sum_.partial), parts = parts_of_leaf(),
                    max_sums = layout_.max_subtrees();
  const std::size_t of_part = record.count * element;
  const std::size_t of_rank = max_sums * parts * of_part;
  grow(mine_, of_rank);
  grow(theirs_, of_rank * static_cast<std::size_t>(members_.size));
  for (std::size_t part = 0; part < parts; ++part)
    sum_own(call, {part, 0, record.count}, mine_.data() + part * max_sums * of_part);
  Call gather;
  gather.record = {of_rank, Collective::kAllGather, DataType::kUint8, RedOp::kSum, 0, -1};
  gather.send = mine_.data();
  gather.receive = theirs_.data();
  RONDO_CHECK_OK(run_step(gather, record));
  if (has_result(call)) combine_gathered(call, of_rank, max_sums);
  return ok_status();
}

// of_rank: bytes from one rank's sums to the next one's.
void OrderedCalls::combine_gathered(const Call& call, std::size_t of_rank, std::size_t max_sums) {
  assert(call.receive != nullptr);
  const CallRecord& record = call.record;
  const std::size_t of_part = record.count * size_of(sum_.partial);
  const std::size_t part = parts_of_leaf() == 1 ? 0 : static_cast<std::size_t>(members_.rank);
  sources_.clear();
  for (const int rank : layout_.order()) {
    const std::byte* at =
        theirs_.data() + static_cast<std::size_t>(rank) * of_rank + part * max_sums * of_part;
    for (const LeafRun subtree : layout_.subtrees_of(rank)) {
      sources_.push_back({subtree, at});
      at += of_part;
    }
  }
  grow(combined_, of_part);
  tree_.sum_partials(sum_.root, sources_, record.count, combined_.data());
  tree_.finish(combined_.data(), record.count, sum_.divisor, static_cast<std::byte*>(call.receive));
}

OrderedCalls::Slice OrderedCalls::slice_of(const Piece& piece, int owner) const {
  assert(owner >= 0 && owner < members_.size);
  const auto rank = static_cast<std::size_t>(owner),
             ranks = static_cast<std::size_t>(members_.size);
  if (parts_of_leaf() > 1) return {rank, piece.at, piece.count};
  const std::size_t even = (piece.count + ranks - 1) / ranks;
  const std::size_t each = (even + kSliceElements - 1) / kSliceElements * kSliceElements;
  const std::size_t begin = std::min(piece.count, rank * each);
  return {0, piece.at + begin, std::min(piece.count - begin, each)};
}

// Each owner receives every rank's sums of its slice, one rank after the other.
Status OrderedCalls::exchange_sums(const Call& call, const Piece& piece) {
  const std::size_t element = size_of(sum_.partial);
  const auto ranks = static_cast<std::size_t>(members_.size);
  const Slice own = slice_of(piece, members_.rank);
  const std::size_t mine = layout_.subtrees_of(members_.rank).size();
  std::size_t sent = 0, received = 0;
  for (int rank = 0; rank < members_.size; ++rank) {
    sent += mine * slice_of(piece, rank).count * element;
    received += layout_.subtrees_of(rank).size() * own.count * element;
  }
  grow(mine_, sent);
  grow(theirs_, received);
  messages_.clear();
  arrived_.assign(ranks, nullptr);
  std::byte* to = mine_.data();
  std::byte* from = theirs_.data();
  for (int rank = 0; rank < members_.size; ++rank) {
    const Slice slice = slice_of(piece, rank);
    const std::size_t sums = layout_.subtrees_of(rank).size();
    arrived_[static_cast<std::size_t>(rank)] = from;
    if (rank == members_.rank) {
      sum_own(call, slice, from);
    } else {
      sum_own(call, slice, to);
      messages_.push_back(
          message(Collective::kSend, rank, sum_.partial, mine * slice.count, to, nullptr));
      messages_.push_back(
          message(Collective::kRecv, rank, sum_.partial, sums * own.count, nullptr, from));
    }
    to += mine * slice.count * element;
    from += sums * own.count * element;
  }
  return members_.size == 1 ? ok_status() : steps_.run_messages(messages_, call.record);
}

// The owners' slices reach the ranks that want the result.
Status OrderedCalls::distribute(const Call& call, const Piece& piece) {
  const CallRecord& record = call.record;
  const std::size_t element = size_of(record.type);
  const Slice own = slice_of(piece, members_.rank);
  const bool has = has_result(call);
  const std::byte* const mine =
      has ? static_cast<const std::byte*>(call.receive) + own.at * element : theirs_.data();
  messages_.clear();
  for (int rank = 0; rank < members_.size; ++rank) {
    if (rank == members_.rank) continue;
    if (sum_.plain == Collective::kAllReduce || record.root == rank)
      messages_.push_back(message(Collective::kSend, rank, record.type, own.count, mine, nullptr));
    if (!has) continue;
    const Slice slice = slice_of(piece, rank);
    messages_.push_back(message(Collective::kRecv, rank, record.type, slice.count, nullptr,
                                static_cast<std::byte*>(call.receive) + slice.at * element));
  }
  return steps_.run_messages(messages_, record);
}

Status OrderedCalls::run_by_owners(const Call& call, const Piece& piece) {
  const CallRecord& record = call.record;
  const std::size_t element = size_of(sum_.partial);
  RONDO_CHECK_OK(exchange_sums(call, piece));
  const Slice own = slice_of(piece, members_.rank);
  if (own.count > 0) {
    sources_.clear();
    for (const int rank : layout_.order()) {
      const std::byte* at = arrived_[static_cast<std::size_t>(rank)];
      for (const LeafRun subtree : layout_.subtrees_of(rank)) {
        sources_.push_back({subtree, at});
        at += own.count * element;
      }
    }
    assert(!sources_.empty());
    grow(combined_, own.count * element);
    tree_.sum_partials(sum_.root, sources_, own.count, combined_.data());
    // A rank without a result keeps its slice where the sums were.
    std::byte* const result =
        has_result(call) ? static_cast<std::byte*>(call.receive) + own.at * size_of(record.type)
                         : theirs_.data();
    tree_.finish(combined_.data(), own.count, sum_.divisor, result);
  }
  if (sum_.plain == Collective::kReduceScatter || members_.size == 1) return ok_status();
  return distribute(call, piece);
}

}  // namespace rondo
