// Ranks that share a GPU although others of their host are unused: usually a program that does not
// set its device. NCCL refuses this; Rondo runs, and a warning names the ranks and GPUs.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace rondo::gpu {

// of_ranks: the GPU of each of these ranks. visible: all GPUs that the first of them sees, in the
// order of its device numbers. GPUs are named by PCI bus ids; "": unknown. Empty if no GPU is
// shared or none is unused.
std::string warn_of_unused_gpus(std::span<const int> ranks, std::span<const std::string> of_ranks,
                                std::span<const std::string> visible);

}  // namespace rondo::gpu
