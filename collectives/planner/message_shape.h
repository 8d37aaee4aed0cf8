// How much memory the slots of a pair of ranks have for messages between GPUs, and how it is cut
// into channels. Pure functions. Cost: some operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/message_args.h"

namespace rondo::gpu {

// Over a network each channel is a connection of its own, which one thread serves: a pair has
// fewer.
struct MessageShape {
  int channels = cuda::kMessageChannels;
  std::uint64_t slot_bytes = cuda::kMessageSlotBytes;
  bool over_network = false;
};
MessageShape message_shape(std::uint64_t bytes, bool over_network = false);

// Of one pair, where ranks have so much for all of theirs (RONDO_GPU_STAGING); pinned: in memory of
// the host, of which they have less.
std::uint64_t message_bytes_of_pair(std::uint64_t staging_bytes, std::size_t ranks, bool pinned);

}  // namespace rondo::gpu
