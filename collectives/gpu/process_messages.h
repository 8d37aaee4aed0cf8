// ProcessMessages: sends and receives between processes with GPUs of one host, by slots of the pair
// of ranks (message_slots.h).
//
// The sender copies into a slot, the receiver out of it; two slots a pair, so what fits never waits
// for its receiver. Guarantees: a message whose sizes differ is an error of
// whoever comes last. Cost: four memory operations and a copy a piece on each side.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collectives/gpu/call_announcements.h"
#include "collectives/gpu/process_context.h"

namespace rondo::gpu {

// A message between a rank of this process and one of another.
struct ProcessMessage {
  int from = 0, to = 0;
  CallRecord record;
  const void* send = nullptr;  // where this process sends,
  void* receive = nullptr;     // or else receives
  bool in_collective = false;  // has been announced
  bool by_driver = false;      // the stream's device may not touch the buffer
};

class ProcessMessages {
 public:
  explicit ProcessMessages(ProcessContext& context);

  Done run(std::span<const ProcessMessage> messages, GpuStream stream, bool capturing,
           Mismatch* mismatch);
  // The same in two steps: one caller at a time prepares; ranks may enqueue at once.
  struct Pieces;
  Result<std::shared_ptr<const Pieces>> prepare(std::span<const ProcessMessage> messages,
                                                Mismatch* mismatch);
  Done enqueue(const Pieces& prepared, GpuStream stream, bool capturing);

 private:
  struct PairPieces;
  Result<MessageSlots::Slots> slots_for(const ProcessMessage& message);
  Done announce_message(const ProcessMessage& message, Mismatch* mismatch);
  Done enqueue_piece(const PairPieces& pair, std::size_t piece, GpuStream stream);

  ProcessContext& context_;
  std::vector<std::uint64_t> pair_pieces_, pair_messages_;  // by pair, ever
};

}  // namespace rondo::gpu
