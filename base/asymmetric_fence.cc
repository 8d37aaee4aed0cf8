// SPDX-License-Identifier: Apache-2.0
#include "base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rondo {
namespace {

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

std::atomic<bool> fences_are_light{false};

bool prepare_host_fences() {
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && fence_host();
}

bool fence_host() { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

void prepare_fences() {
  if (fences_are_light.load(std::memory_order_relaxed)) return;
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
      membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
    fences_are_light.store(true, std::memory_order_seq_cst);
}

void heavy_fence() {
  if (!fences_are_light.load(std::memory_order_seq_cst)) return;  // store_before_loads() is one
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A forked child may have lost the registration. If it has started threads, it needs it again.
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace rondo
