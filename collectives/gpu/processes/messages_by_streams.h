// SPDX-License-Identifier: Apache-2.0
// MessagesByStreams: messages between processes that share GPUs. A kernel must not wait for another
// process of its GPU, so streams wait, by stream memory operations, and copy.
//
// The sender copies into a slot, the receiver out of it. A pair has two slots, so a message that
// fits never waits for its receiver. Cost: four memory operations and a copy per piece on each
// side.
#pragma once

#include <span>
#include <vector>

#include "collectives/gpu/calls/process_message.h"

namespace rondo::gpu {

struct ProcessContext;

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

}  // namespace rondo::gpu
