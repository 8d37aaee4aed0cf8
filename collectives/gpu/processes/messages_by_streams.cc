// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/messages_by_streams.h"

#include <algorithm>

#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/processes/process_context.h"
#include "collectives/gpu/processes/process_messages.h"

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
  DirectLaunches copies(context_.api, context_.facts.max_ctas, stream);
  RONDO_CHECK_OK(pair.sends ? copies.copy(user.at, staged, user.bytes)
                            : copies.copy(staged, user.at, user.bytes));
  RONDO_CHECK_OK(copies.flush());
  return context_.write(stream, words.slot[slot], pair.sends ? kFull : kEmpty);
}

}  // namespace rondo::gpu
