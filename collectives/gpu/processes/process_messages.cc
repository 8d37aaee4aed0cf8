// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/process_messages.h"

#include "base/atomics.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"
#include "collectives/gpu/processes/process_context.h"

namespace rondo::gpu {

ProcessMessages::ProcessMessages(ProcessContext& context)
    : context_(context),
      pair_messages_(static_cast<std::size_t>(context.ranks() * context.ranks())) {
  if (!context_.messages_are_kernels()) return;
  DeviceConnections* const connections = context_.shared.connections.get();
  by_kernel_.emplace(MessagesByKernel::Options{
      connections, connections->layout().shape().channels,
      [this](int rank) { return context_.is_local(rank); },
      [this](const ProcessMessage& message) { return slots_for(context_, message); }});
}

Result<ProcessMessages::Prepared> ProcessMessages::prepare(std::span<const ProcessMessage> messages,
                                                           Mismatch* mismatch) {
  RONDO_CHECK_OK(context_.standing.check());
  Prepared prepared;
  for (const ProcessMessage& message : messages)
    if (!message.in_collective) RONDO_CHECK_OK(announce_message(message, mismatch));
  if (by_kernel_) {
    RONDO_TRY(prepared.launches, by_kernel_->prepare(messages));
  } else {
    RONDO_TRY(prepared.pieces, by_streams_.prepare(messages));
  }
  return prepared;
}

Status ProcessMessages::enqueue(const Prepared& prepared, GpuStream stream) {
  return by_kernel_ ? by_kernel_->enqueue(prepared.launches, stream)
                    : by_streams_.enqueue(prepared.pieces, stream);
}

// Publishes this side's record of the message, and compares with the other side's if published.
Status ProcessMessages::announce_message(const ProcessMessage& message, Mismatch* mismatch) {
  const int side = context_.is_local(message.from) ? 0 : 1;
  const int own = side == 0 ? message.from : message.to;
  const int peer = side == 0 ? message.to : message.from;
  const std::uint64_t number = ++pair_messages_[message.from * context_.ranks() + message.to];
  MessageNote& mine = context_.segment->note(message.from, message.to, side, number);
  HostAtomics::store_release(mine.number, std::uint64_t{0});
  store_record(mine.record, message.record);
  HostAtomics::store_seq_cst(mine.number, number);
  HostAtomics::fence_seq_cst();
  const MessageNote& theirs = context_.segment->note(message.from, message.to, 1 - side, number);
  if (HostAtomics::load_acquire(theirs.number) != number) return ok_status();
  const CallRecord other = load_record(theirs.record), &record = message.record;
  if (HostAtomics::load_acquire(theirs.number) != number) return ok_status();
  if (record.count * size_of(record.type) == other.count * size_of(other.type)) return ok_status();
  *mismatch = {peer, record, other, fault_texts::different_sizes(own, record, peer, other)};
  return fail(StatusCode::kInvalidUsage, "{}", mismatch->text);
}

Result<MessageSlots::Slots> slots_for(ProcessContext& context, const ProcessMessage& message) {
  TeamStanding& standing = context.standing;
  const int from = message.from, to = message.to;
  auto slots = context.slots->between(from, to, standing.deadline());
  if (slots.code() == StatusCode::kRemoteError && standing.check().ok()) {
    const auto parting =
        standing.has_ended(to) ? fault_texts::Parting::kEnded : fault_texts::Parting::kLeft;
    Fault gone;
    gone.status = StatusCode::kRemoteError;
    gone.culprit = to;
    gone.text = fault_texts::gone_from_message(standing.name_of(to), parting,
                                               to_string(message.record), from);
    standing.blame(std::move(gone));
  }
  if (!slots.ok()) RONDO_CHECK_OK(standing.check());
  return slots;
}

}  // namespace rondo::gpu
