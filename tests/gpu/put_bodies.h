// Puts of ranks on GPUs into windows of other ranks, wherever the ranks are.
#pragma once

#include "tests/gpu/process_bodies.h"

namespace rondo::test {

struct Member {
  ncclComm_t comm;
  GpuStream stream;
  int rank, size;
  cudaStream_t cuda_stream() const { return static_cast<cudaStream_t>(stream); }
};

// A window with a block for every rank's puts, and what this rank puts into those of the others.
class PutExchange {
 public:
  // sources: puts leave from a window, too.
  PutExchange(const Member& member, std::size_t block, bool sources = false);
  ~PutExchange();
  PutExchange(const PutExchange&) = delete;
  PutExchange& operator=(const PutExchange&) = delete;

  void fill(int round);
  // To every rank, this one as well.
  void put_and_wait();
  // Nobody puts again before all have looked.
  void tell_all();
  void check(int round);
  // What `from` puts here in a round, and whether it is here.
  Bytes block_of(int from, int round) const;
  bool holds_block_of(int from, int round);

  const Member me;
  const std::size_t block;
  DeviceBuffer memory, outgoing;
  ncclWindow_t window = nullptr, source = nullptr;
};

// A process's only rank.
NcclBody as_member(void (*body)(const Member&));

// Blocks of several sizes, in groups and one by one; from plain memory, or from a window.
void exchange_blocks(const Member& me);
void exchange_blocks_of_windows(const Member& me);
// Replays of one graph among plain calls and collectives.
void replay_puts(const Member& me);

}  // namespace rondo::test
