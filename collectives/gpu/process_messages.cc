#include "collectives/gpu/process_messages.h"

#include <algorithm>

#include "base/atomics.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/watchdog/fault_texts.h"
#include "collectives/watchdog/peer_words.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

ProcessMessages::ProcessMessages(ProcessContext& context)
    : context_(context),
      pair_pieces_(static_cast<std::size_t>(context.ranks() * context.ranks())),
      pair_messages_(pair_pieces_.size()) {}

// All messages of one group that take one pair, in pieces that fit into a slot.
struct ProcessMessages::PairPieces {
  int from, to;
  bool sends;
  std::byte* slots;  // the pair's, kMessageSlots of slot_bytes
  std::uint64_t slot_bytes;
  std::uint64_t first;  // number of the first piece, ever
  struct Piece {
    std::byte* at;  // in the user's buffer
    std::uint64_t bytes;
    bool by_driver;
  };
  std::vector<Piece> pieces = {};
};

struct ProcessMessages::Pieces {
  int rank = 0;  // of this process, after whose newest call they come
  std::vector<PairPieces> pairs = {};
  std::size_t longest = 0;  // most pieces of a pair
};

Done ProcessMessages::run(std::span<const ProcessMessage> messages, GpuStream stream,
                          bool capturing, Mismatch* mismatch) {
  RONDO_TRY(const auto prepared, prepare(messages, mismatch));
  return enqueue(*prepared, stream, capturing);
}

Result<std::shared_ptr<const ProcessMessages::Pieces>> ProcessMessages::prepare(
    std::span<const ProcessMessage> messages, Mismatch* mismatch) {
  RONDO_CHECK_OK(context_.standing.check());
  auto prepared = std::make_shared<Pieces>();
  const ProcessMessage& first = messages.front();
  prepared->rank = context_.is_local(first.from) ? first.from : first.to;
  if (first.in_collective) prepared->rank = context_.local[0];
  std::vector<PairPieces>& pairs = prepared->pairs;
  for (const ProcessMessage& message : messages) {
    if (!message.in_collective) RONDO_CHECK_OK(announce_message(message, mismatch));
    const bool sends = message.send != nullptr || context_.is_local(message.from);
    auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const PairPieces& one) {
      return one.from == message.from && one.to == message.to;
    });
    if (pair == pairs.end()) {
      RONDO_TRY(const MessageSlots::Slots slots, slots_for(message));
      pairs.push_back({message.from, message.to, sends, slots.at, slots.bytes,
                       pair_pieces_[message.from * context_.ranks() + message.to]});
      pair = pairs.end() - 1;
    }
    auto* const user =
        static_cast<std::byte*>(sends ? const_cast<void*>(message.send) : message.receive);
    const std::uint64_t bytes = message.record.count * size_of(message.record.type);
    for (std::uint64_t done = 0; done < bytes; done += pair->slot_bytes)
      pair->pieces.push_back(
          {user + done, std::min(pair->slot_bytes, bytes - done), message.by_driver});
  }
  for (const PairPieces& pair : pairs) {
    pair_pieces_[pair.from * context_.ranks() + pair.to] += pair.pieces.size();
    prepared->longest = std::max(prepared->longest, pair.pieces.size());
  }
  return std::shared_ptr<const Pieces>(std::move(prepared));
}

// Whoever cannot be asked for slots any more will not take or send anything either.
Result<MessageSlots::Slots> ProcessMessages::slots_for(const ProcessMessage& message) {
  TeamStanding& standing = context_.standing;
  const int from = message.from, to = message.to;
  auto slots = context_.slots->between(from, to, standing.deadline());
  if (slots.status() == Status::kRemoteError && standing.check().ok()) {
    const auto parting =
        standing.has_ended(to) ? fault_texts::Parting::kEnded : fault_texts::Parting::kLeft;
    Fault gone;
    gone.status = Status::kRemoteError;
    gone.culprit = to;
    gone.text = fault_texts::gone_from_message(standing.name_of(to), parting,
                                               to_string(message.record), from);
    standing.blame(std::move(gone));
  }
  if (!slots.ok()) RONDO_CHECK_OK(standing.check());
  return slots;
}

Done ProcessMessages::enqueue(const Pieces& prepared, GpuStream stream, bool capturing) {
  // Sends are a pair's slots ahead of receives: what fits waits for nobody, and two ranks that send
  // each other more than that go on in turns.
  const auto enqueue = [&](bool sends, std::size_t piece) -> Done {
    for (const PairPieces& pair : prepared.pairs)
      if (pair.sends == sends && piece < pair.pieces.size())
        RONDO_CHECK_OK(enqueue_piece(pair, piece, stream));
    return done();
  };
  for (std::size_t i = 0; i < kMessageSlots; ++i) RONDO_CHECK_OK(enqueue(true, i));
  for (std::size_t i = 0; i < prepared.longest; ++i) {
    RONDO_CHECK_OK(enqueue(false, i));
    RONDO_CHECK_OK(enqueue(true, i + kMessageSlots));
  }
  return context_.finish(prepared.rank, stream, capturing);
}

// Tells the other side what this message is, and compares where it has told already.
Done ProcessMessages::announce_message(const ProcessMessage& message, Mismatch* mismatch) {
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
  if (HostAtomics::load_acquire(theirs.number) != number) return done();
  const CallRecord other = load_record(theirs.record), &record = message.record;
  if (HostAtomics::load_acquire(theirs.number) != number) return done();
  if (record.count * size_of(record.type) == other.count * size_of(other.type)) return done();
  *mismatch = {peer, record, other, fault_texts::different_sizes(own, record, peer, other)};
  return fail(Status::kInvalidUsage, "{}", mismatch->text);
}

Done ProcessMessages::enqueue_piece(const PairPieces& pair, std::size_t piece, GpuStream stream) {
  const std::uint64_t number = pair.first + piece;
  const auto slot = static_cast<std::size_t>(number % kMessageSlots);
  std::byte* const staged = pair.slots + slot * pair.slot_bytes;
  const PairPieces::Piece& user = pair.pieces[piece];
  MessagePair& words = context_.segment->pair(pair.from, pair.to);
  std::uint32_t& stage = pair.sends ? words.sending : words.receiving;
  RONDO_CHECK_OK(context_.write(stream, stage, static_cast<std::uint32_t>(piece) + 1));
  RONDO_CHECK_OK(
      context_.await(stream, words.slot[slot], pair.sends ? kEmpty : kFull, GpuWait::kAnd));
  RONDO_CHECK_OK(context_.write(stream, stage, 0));  // from here on this piece needs nobody
  DirectLaunches copies(context_.api, context_.facts.most_ctas, stream);
  if (user.by_driver) copies.copy_by_driver();
  RONDO_CHECK_OK(pair.sends ? copies.copy(user.at, staged, user.bytes)
                            : copies.copy(staged, user.at, user.bytes));
  RONDO_CHECK_OK(copies.flush());
  return context_.write(stream, words.slot[slot], pair.sends ? kFull : kEmpty);
}

}  // namespace rondo::gpu
