// Composition: a collective of ranks on several GPUs, some of which several processes share, as
// steps among the ranks of each GPU, and among the GPUs' first ranks, their leaders.
//
// What a GPU's ranks have is reduced or copied to their leader, leaders exchange it, and spread the
// results. A pure function of what all ranks know: every rank's list has equally many steps, and a
// rank does its steps in order. Steps of one number are one call of everybody who takes part in it.
// What does not fit into a leader's spare memory is done piece by piece. Guarantees: right for any
// placement of ranks; sums are in another order than the tree's. Cost: nothing is moved here; per
// call between 2 and 4 steps where ranks lie on GPUs in blocks or in turns, else one more a rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace rondo::gpu {

struct GpuGroups {
  explicit GpuGroups(std::span<const int> gpu_of);  // by rank, numbered in the order of first ranks

  std::vector<int> gpu_of;
  std::vector<std::vector<int>> members;  // by GPU, ascending
  std::vector<int> index_of;              // by rank, among the members of its GPU
  int ranks() const { return static_cast<int>(gpu_of.size()); }
  int gpus() const { return static_cast<int>(members.size()); }
  bool leads(int rank) const { return index_of[static_cast<std::size_t>(rank)] == 0; }
  std::vector<int> leaders() const;
  // Blocks: GPU g has equally many ranks as all others, the next after those of g - 1. In turns:
  // rank r is on GPU r % gpus. Adjacent: every GPU's ranks follow each other.
  bool blocks, in_turns, adjacent;
};

struct ComposedStep {
  enum class By : std::uint8_t {
    kNobody,   // not this rank
    kGpu,      // the ranks of its GPU, numbered as its members
    kLeaders,  // the leaders, numbered as GPUs
    kAverage,  // this leader alone: divides by the number of ranks
  };
  enum class Buffer : std::uint8_t { kNone, kSend, kReceive, kSpare };
  struct BufferOffset {
    Buffer buffer = Buffer::kNone;
    std::uint64_t offset = 0;  // bytes
  };
  By by = By::kNobody;
  CallRecord record;
  int peer = -1;  // of messages, by its number on the GPU
  BufferOffset send, receive;
  bool scaled = false;  // takes the rank's factor of PreMulSum
};

// The five collectives that have a ring.
bool is_composed(Collective which);
std::vector<ComposedStep> compose(const CallRecord& record, const GpuGroups& groups, int rank,
                                  std::uint64_t spare_bytes);

// "rank 1" and "ranks 1, 2" in a text about a smaller communicator, by the numbers of the whole.
std::string renumbered(std::string_view text, std::span<const int> members);

}  // namespace rondo::gpu
