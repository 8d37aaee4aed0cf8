#include "collectives/gpu/rank/unused_gpus.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "collectives/faults/fault_texts.h"

namespace rondo::gpu {

std::string warn_of_unused_gpus(std::span<const int> ranks, std::span<const std::string> of_ranks,
                                std::span<const std::string> visible) {
  std::vector<std::string> shared;
  std::vector<int> unused;
  for (std::size_t gpu = 0; gpu < visible.size(); ++gpu) {
    if (visible[gpu].empty()) continue;
    std::vector<int> there;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (of_ranks[i] == visible[gpu]) there.push_back(ranks[i]);
    if (there.empty()) unused.push_back(static_cast<int>(gpu));
    if (there.size() > 1)
      shared.push_back(fmt::format("{} share GPU {}", fault_texts::list_of(there), gpu));
  }
  if (shared.empty() || unused.empty()) return "";
  return fmt::format(
      "{}, but no rank of this communicator uses GPU{} {}: calls are slower than with a GPU a "
      "rank. Call cudaSetDevice (torch.cuda.set_device) with the rank's number on its host "
      "(LOCAL_RANK) before the communicator is made",
      fmt::join(shared, ", "), unused.size() == 1 ? "" : "s", fmt::join(unused, ", "));
}

}  // namespace rondo::gpu
