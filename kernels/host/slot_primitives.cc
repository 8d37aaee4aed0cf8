// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/slot_primitives.h"

#include <cassert>
#include <cstring>

#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/reduce.h"

namespace rondo::host {

SlotPrimitives::SlotPrimitives(ConnectedCall& shared, Peers from, Peers to, int channel)
    : shared_(shared), element_(size_of(shared.call.type)) {
  assert(channel >= 0);
  const auto connect = [&](const auto& make, int peer, Connection*& end) {
    if (peer < 0 || shared_.failed) return;
    end = make(peer, channel);
    if (end == nullptr) shared_.failed = true;
  };
  connect(shared.from, from.first, from_[0]);
  connect(shared.from, from.second, from_[1]);
  connect(shared.to, to.first, to_[0]);
  connect(shared.to, to.second, to_[1]);
}

bool SlotPrimitives::wait_free(Connection& connection) {
  SendEnd<> end(connection);
  return shared_.rank.waiter.until([&] { return end.ready(); },
                                   {-1, *connection.tail, connection.peer});
}

bool SlotPrimitives::wait_full(Connection& connection, std::uint64_t bytes) {
  assert(bytes > 0 && bytes <= connection.slot_bytes);
  ReceiveEnd<> end(connection);
  if (!shared_.rank.waiter.until([&] { return end.ready(); },
                                 {-1, *connection.head, connection.peer}))
    return false;
  const HostRank& rank = shared_.rank;
  if (end.record() == shared_.call.announced() && end.bytes() == bytes &&
      end.tag() == rank.call_tag())
    return !shared_.has_entered || shared_.has_entered(connection.peer);
  rank.hooks.on_mismatch(rank.hooks.owner, connection.peer, shared_.call.announced(), end.record(),
                         rank.number_of(end.tag()));
  return false;
}

bool SlotPrimitives::ready(const Chunk& c, Ways ways) {
  if (shared_.failed || c.count == 0) return false;
  for (Connection* connection : from_)
    if ((ways & kReceives) && connection != nullptr && !shared_.failed)
      shared_.failed = !wait_full(*connection, c.count * element_);
  for (Connection* connection : to_)
    if ((ways & kSends) && connection != nullptr && !shared_.failed)
      shared_.failed = !wait_free(*connection);
  return !shared_.failed;
}

void SlotPrimitives::hand_over(const Chunk& c, Ways ways) {
  for (Connection* connection : to_)
    if ((ways & kSends) && connection != nullptr)
      SendEnd<>(*connection)
          .push(c.count * element_, shared_.call.announced(), shared_.rank.call_tag());
  for (Connection* connection : from_)
    if ((ways & kReceives) && connection != nullptr) ReceiveEnd<>(*connection).pop();
}

// This rank's operand: its accumulated output, or its input (scaled for PreMulSum).
const void* SlotPrimitives::operand(const Chunk& c, Own own) {
  if (own == kOutput) return output(c);
  if (shared_.call.op != RedOp::kPreMulSum) return input(c);
  assert(shared_.scratch != nullptr && shared_.call.scalar != nullptr);
  scale(shared_.scratch, input(c), c.count, shared_.call.type, shared_.call.scalar);
  return shared_.scratch;
}

void SlotPrimitives::fill_slot(Connection& to, const void* from, std::size_t bytes) {
  fill(shared_.rank.stores_for(to.peer), to, from, bytes);
}

void SlotPrimitives::move(const Chunk& c, Own own, bool keep) {
  // Without neighbours a chunk may be longer than a slot, because it passes through none.
  const bool alone = to_[0] == nullptr && to_[1] == nullptr;
  if (alone && keep && !shared_.failed && c.count > 0) {
    if (shared_.call.op == RedOp::kPreMulSum && own == kInput) {
      scale(output(c), input(c), c.count, shared_.call.type, shared_.call.scalar);
    } else {
      copy_bytes(output(c), input(c), c.count * element_, false);
    }
    return;
  }
  if (!ready(c, kSends)) return;
  const void* from = operand(c, own);
  for (Connection* connection : to_)
    if (connection != nullptr) fill_slot(*connection, from, c.count * element_);
  if (keep) copy_bytes(output(c), from, c.count * element_, false);
  hand_over(c, kSends);
}

void SlotPrimitives::pass(const Chunk& c, Ways ways) {
  assert((ways & kReceives) != 0);
  if (!ready(c, ways)) return;
  assert(from_[0] != nullptr);
  const std::byte* from = ReceiveEnd<>(*from_[0]).slot();
  for (Connection* connection : to_)
    if ((ways & kSends) && connection != nullptr) fill_slot(*connection, from, c.count * element_);
  copy_bytes(output(c), from, c.count * element_, false);
  hand_over(c, ways);
}

void SlotPrimitives::reduce(const Chunk& c, Ways ways, Own own, bool keep, bool finished) {
  if (!ready(c, ways)) return;
  // (from first + own) + from second: the tree order of three sources.
  const void* sources[3];
  int count = 0;
  if (from_[0] != nullptr) sources[count++] = ReceiveEnd<>(*from_[0]).slot();
  sources[count++] = operand(c, own);
  if (from_[1] != nullptr) sources[count++] = ReceiveEnd<>(*from_[1]).slot();
  combine(c, ways, sources, count, keep, finished);
}

void SlotPrimitives::recv_reduce_after(const Chunk& c) {
  if (!ready(c, kReceives)) return;
  assert(from_[0] != nullptr);
  const void* sources[2] = {output(c), ReceiveEnd<>(*from_[0]).slot()};
  combine(c, kReceives, sources, 2, true, false);
}

void SlotPrimitives::combine(const Chunk& c, Ways ways, const void* const* sources, int count,
                             bool keep, bool finished) {
  void* targets[3];
  int target_count = 0, streamed = 0;
  const auto goes_past = [&](const Connection& to) {
    return is_local(to) && shared_.rank.stores_for(to.peer).past(c.count * element_);
  };
  for (const bool past : {true, false})
    for (Connection* connection : to_)
      if ((ways & kSends) && connection != nullptr && goes_past(*connection) == past)
        targets[target_count++] = SendEnd<>(*connection).slot(), streamed += past ? 1 : 0;
  if (keep) targets[target_count++] = output(c);
  assert(target_count > 0 && supported(shared_.call.type, shared_.call.op));
  reduce_function(shared_.call.type,
                  shared_.call.op)({sources, count, targets, target_count, c.count,
                                    shared_.communicator_size, finished, streamed});
  hand_over(c, ways);
}

void SlotPrimitives::finish(const Chunk& c) {
  if (shared_.failed || c.count == 0) return;
  const void* source = output(c);
  void* target = output(c);
  reduce_function(shared_.call.type, shared_.call.op)(
      {&source, 1, &target, 1, c.count, shared_.communicator_size, true, 0});
}

}  // namespace rondo::host
