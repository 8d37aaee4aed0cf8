// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/process_messages.h"

#include <algorithm>

#include "base/atomics.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/processes/process_context.h"

namespace rondo::gpu {

MessagesByStreams::MessagesByStreams(ProcessContext& context)
    : context_(context),
      pair_pieces_(static_cast<std::size_t>(context.ranks() * context.ranks())) {}

Result<MessagesByStreams::Pieces> MessagesByStreams::prepare(
    std::span<const ProcessMessage> messages) {
  Pieces pairs;
  for (const ProcessMessage& message : messages) {
    const bool sends = message.send != nullptr || context_.is_local(message.from);
    auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const PairPieces& one) {
      return one.from == message.from && one.to == message.to;
    });
    if (pair == pairs.end()) {
      RONDO_TRY(const MessageSlots::Slots slots, slots_for(context_, message));
      pairs.push_back({message.from, message.to, sends, slots.at, slots.bytes / kMessageSlots,
                       pair_pieces_[message.from * context_.ranks() + message.to]});
      pair = pairs.end() - 1;
    }
    auto* const user =
        static_cast<std::byte*>(sends ? const_cast<void*>(message.send) : message.receive);
    const std::uint64_t bytes = message.bytes();
    for (std::uint64_t done = 0; done < bytes; done += pair->slot_bytes)
      pair->pieces.push_back({user + done, std::min(pair->slot_bytes, bytes - done)});
  }
  for (const PairPieces& pair : pairs)
    pair_pieces_[pair.from * context_.ranks() + pair.to] += pair.pieces.size();
  return pairs;
}

Status MessagesByStreams::enqueue(const Pieces& pairs, GpuStream stream) const {
  // Sends are a pair's slots ahead of receives: a message that fits never waits, and two ranks that
  // send each other more take turns.
  const auto enqueue = [&](bool sends, std::size_t piece) -> Status {
    for (const PairPieces& pair : pairs)
      if (pair.sends == sends && piece < pair.pieces.size())
        RONDO_CHECK_OK(enqueue_piece(pair, piece, stream));
    return ok_status();
  };
  std::size_t longest = 0;
  for (const PairPieces& pair : pairs) longest = std::max(longest, pair.pieces.size());
  for (std::size_t i = 0; i < kMessageSlots; ++i) RONDO_CHECK_OK(enqueue(true, i));
  for (std::size_t i = 0; i < longest; ++i) {
    RONDO_CHECK_OK(enqueue(false, i));
    RONDO_CHECK_OK(enqueue(true, i + kMessageSlots));
  }
  return ok_status();
}

Status MessagesByStreams::enqueue_piece(const PairPieces& pair, std::size_t piece,
                                        GpuStream stream) const {
  const std::uint64_t number = pair.first + piece;
  const auto slot = static_cast<std::size_t>(number % kMessageSlots);
  std::byte* const staged = pair.slots + slot * pair.slot_bytes;
  const PairPieces::Piece& user = pair.pieces[piece];
  MessagePair& words = context_.segment->pair(pair.from, pair.to);
  std::uint32_t& stage = pair.sends ? words.sending : words.receiving;
  RONDO_CHECK_OK(context_.write(stream, stage, static_cast<std::uint32_t>(piece) + 1));
  RONDO_CHECK_OK(
      context_.await(stream, words.slot[slot], pair.sends ? kEmpty : kFull, GpuWait::kAnd));
  RONDO_CHECK_OK(context_.write(stream, stage, 0));  // from here on this piece waits for no rank
  DirectLaunches copies(context_.facts.max_ctas, stream);
  RONDO_CHECK_OK(pair.sends ? copies.copy(user.at, staged, user.bytes)
                            : copies.copy(staged, user.at, user.bytes));
  RONDO_CHECK_OK(copies.flush());
  return context_.write(stream, words.slot[slot], pair.sends ? kFull : kEmpty);
}

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
    if (message.is_announced()) RONDO_CHECK_OK(announce_message(message, mismatch));
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
  const std::string why = fault_texts::different_messages(own, record, peer, other);
  if (why.empty()) return ok_status();
  *mismatch = {peer, record, other, why};
  return fail(StatusCode::kInvalidUsage, "{}", mismatch->text);
}

Result<MessageSlots::Slots> slots_for(ProcessContext& context, const ProcessMessage& message) {
  TeamStanding& standing = context.standing;
  const int from = message.from, to = message.to;
  auto slots = context.slots->between(from, to, standing.deadline());
  if (slots.code() == StatusCode::kRemoteError && standing.check().ok()) {
    const auto parting =
        standing.has_ended(to) ? fault_texts::Parting::kEnded : fault_texts::Parting::kLeft;
    standing.blame(StatusCode::kRemoteError, to,
                   fault_texts::gone_from_message(standing.name_of(to), parting,
                                                  to_string(message.record), from));
  }
  if (!slots.ok()) RONDO_CHECK_OK(standing.check());
  return slots;
}

}  // namespace rondo::gpu
