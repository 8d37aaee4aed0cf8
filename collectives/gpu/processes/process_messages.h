// SPDX-License-Identifier: Apache-2.0
// ProcessMessages: sends and receives between processes of a host with GPUs, through slots of the
// pair of ranks (message_slots.h). A kernel moves them if each process has GPUs of its own
// (messages.h).
//
// Otherwise a kernel must not wait for another process of its GPU, so streams wait, by stream
// memory operations, and copy (MessagesByStreams): the sender into a slot, the receiver out of it.
// A pair has two slots, so a message that fits never waits for its receiver. Guarantees: if the two
// sizes of a message differ, or only one of its counts is in device memory, the later rank gets an
// error, and enqueues nothing. Cost: by kernels, see
// messages.h; by streams, four memory operations and a copy per piece on each side.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/gpu/calls/messages.h"

namespace rondo::gpu {

struct ProcessContext;

// Slots of a pair, made with its first message. A peer that cannot give slots any more will not
// send or receive either; the error names it.
Result<MessageSlots::Slots> slots_for(ProcessContext& context, const ProcessMessage& message);

class MessagesByStreams {
 public:
  explicit MessagesByStreams(ProcessContext& context);

  // All messages of one group between one pair, in pieces that fit into a slot.
  struct PairPieces {
    int from, to;
    bool sends;
    std::byte* slots;  // the pair's: kMessageSlots of slot_bytes
    std::uint64_t slot_bytes;
    std::uint64_t first;  // number of the first piece, over all groups
    struct Piece {
      std::byte* at;  // in the user's buffer
      std::uint64_t bytes;
    };
    std::vector<Piece> pieces = {};
  };
  using Pieces = std::vector<PairPieces>;

  // One caller at a time in prepare(); ranks may enqueue at once.
  Result<Pieces> prepare(std::span<const ProcessMessage> messages);
  Status enqueue(const Pieces& pairs, GpuStream stream) const;

 private:
  Status enqueue_piece(const PairPieces& pair, std::size_t piece, GpuStream stream) const;

  ProcessContext& context_;
  std::vector<std::uint64_t> pair_pieces_;  // [pair]: pieces of all groups so far
};

class ProcessMessages {
 public:
  explicit ProcessMessages(ProcessContext& context);

  // One caller at a time in prepare(); ranks may enqueue at once.
  struct Prepared {
    MessagesByKernel::Launches launches;
    MessagesByStreams::Pieces pieces;
  };
  Result<Prepared> prepare(std::span<const ProcessMessage> messages, Mismatch* mismatch);
  Status enqueue(const Prepared& prepared, GpuStream stream);

 private:
  Status announce_message(const ProcessMessage& message, Mismatch* mismatch);

  ProcessContext& context_;
  std::vector<std::uint64_t> pair_messages_;  // [pair]: messages so far
  std::optional<MessagesByKernel> by_kernel_;
  MessagesByStreams by_streams_{context_};
};

}  // namespace rondo::gpu
