// SPDX-License-Identifier: Apache-2.0
// Bodies for puts of ranks on GPUs into windows of other ranks, for any placement of ranks.
#pragma once

#include "tests/gpu/process_bodies.h"

namespace rondo::test {

struct Member {
  ncclComm_t comm;
  GpuStream stream;
  int rank, size;
  cudaStream_t cuda_stream() const { return static_cast<cudaStream_t>(stream); }
};

// A window with a block for every rank's puts, and this rank's data for the others' windows.
class PutExchange {
 public:
  // sources: the puts' source is also a window.
  PutExchange(const Member& member, std::size_t block, bool sources = false);
  ~PutExchange();
  PutExchange(const PutExchange&) = delete;
  PutExchange& operator=(const PutExchange&) = delete;

  void fill(int round);
  // Puts to every rank, including this one, and waits for the puts of all.
  void put_and_wait();
  // Signals all ranks and waits for theirs, so that no rank puts again before all have checked.
  void signal_all();
  void check(int round);
  // Data that `from` puts here in a round, and whether it has arrived.
  Bytes block_of(int from, int round) const;
  bool holds_block_of(int from, int round);

  const Member me;
  const std::size_t block;
  DeviceBuffer memory, outgoing;
  ncclWindow_t window = nullptr, source = nullptr;
};

// For a process with one rank.
NcclBody as_member(void (*body)(const Member&));

// Blocks of several sizes, in groups and one by one; from plain memory, or from a window.
void exchange_blocks(const Member& me);
void exchange_blocks_of_windows(const Member& me);
// Replays one graph between plain calls and collectives.
void replay_puts(const Member& me);

}  // namespace rondo::test
