#include "kernels/host/slot_primitives.h"

namespace rondo::host {

SlotPrimitives::SlotPrimitives(HostRank& rank, const HostCall& call, Connection* next,
                               Connection* previous, int ranks)
    : rank_(rank),
      call_(call),
      element_(size_of(call.type)),
      next_(next),
      previous_(previous),
      ranks_(ranks) {
  if (call.op == RedOp::kPreMulSum)
    scratch_ =
        std::make_unique<std::byte[]>(next != nullptr ? next->slot_bytes : previous->slot_bytes);
}

bool SlotPrimitives::wait_free() {
  SendEnd<> end(*next_);
  failed_ = !rank_.waiter.until([&] { return end.ready(); }, {-1, *next_->tail, next_->peer});
  return !failed_;
}

bool SlotPrimitives::wait_full(const Chunk& c) {
  ReceiveEnd<> end(*previous_);
  failed_ =
      !rank_.waiter.until([&] { return end.ready(); }, {-1, *previous_->head, previous_->peer});
  if (failed_) return false;
  if (end.record() == call_.record && end.bytes() == c.count * element_) return true;
  failed_ = true;
  rank_.on_mismatch(rank_.owner, previous_->peer, end.record());
  return false;
}

const std::byte* SlotPrimitives::operand(const Chunk& c) {
  if (call_.op != RedOp::kPreMulSum) return input(c);
  scale(scratch_.get(), input(c), c.count, call_.type, call_.scalar);
  return scratch_.get();
}

void SlotPrimitives::combine(const Chunk& c, void* const* targets, int count, bool finish) {
  const void* sources[2] = {ReceiveEnd<>(*previous_).slot(), operand(c)};
  reduce_function(call_.type,
                  call_.op)({sources, 2, targets, count, c.count, ranks_, finish, false});
}

void SlotPrimitives::send(const Chunk& c) {
  if (skip(c) || !wait_free()) return;
  SendEnd<> to(*next_);
  if (call_.op == RedOp::kPreMulSum) {
    scale(to.slot(), input(c), c.count, call_.type, call_.scalar);
  } else {
    std::memcpy(to.slot(), input(c), c.count * element_);
  }
  to.push(c.count * element_, call_.record);
}

void SlotPrimitives::recv(const Chunk& c) {
  if (skip(c) || !wait_full(c)) return;
  ReceiveEnd<> from(*previous_);
  std::memcpy(output(c), from.slot(), c.count * element_);
  from.pop();
}

void SlotPrimitives::copy_send(const Chunk& c) {
  if (skip(c) || !wait_free()) return;
  SendEnd<> to(*next_);
  std::memcpy(to.slot(), input(c), c.count * element_);
  if (output(c) != input(c)) std::memcpy(output(c), input(c), c.count * element_);
  to.push(c.count * element_, call_.record);
}

void SlotPrimitives::recv_copy_send(const Chunk& c) {
  if (skip(c) || !wait_full(c) || !wait_free()) return;
  ReceiveEnd<> from(*previous_);
  SendEnd<> to(*next_);
  std::memcpy(to.slot(), from.slot(), c.count * element_);
  std::memcpy(output(c), from.slot(), c.count * element_);
  to.push(c.count * element_, call_.record);
  from.pop();
}

void SlotPrimitives::recv_reduce_send(const Chunk& c) {
  if (skip(c) || !wait_full(c) || !wait_free()) return;
  void* target = SendEnd<>(*next_).slot();
  combine(c, &target, 1, false);
  SendEnd<>(*next_).push(c.count * element_, call_.record);
  ReceiveEnd<>(*previous_).pop();
}

void SlotPrimitives::recv_reduce_copy(const Chunk& c) {
  if (skip(c) || !wait_full(c)) return;
  void* target = output(c);
  combine(c, &target, 1, true);
  ReceiveEnd<>(*previous_).pop();
}

void SlotPrimitives::recv_reduce_copy_send(const Chunk& c) {
  if (skip(c) || !wait_full(c) || !wait_free()) return;
  void* targets[2] = {output(c), SendEnd<>(*next_).slot()};
  combine(c, targets, 2, true);
  SendEnd<>(*next_).push(c.count * element_, call_.record);
  ReceiveEnd<>(*previous_).pop();
}

}  // namespace rondo::host
