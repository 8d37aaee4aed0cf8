// SPDX-License-Identifier: Apache-2.0
// The job of a worker in the two protocols of lines with flags (ll_mover.h, ll128_mover.h).
#pragma once

#include "kernels/cuda/kernel_wait.h"
#include "kernels/cuda/own_bytes.h"
#include "kernels/cuda/simple_mover.h"

namespace rondo::cuda {

struct LineJob {
  const JobOperands& job;
  unsigned worker, workers;

  // Registers are scarce, so words are read where they are needed.
  RONDO_FN std::uint64_t word(std::uint32_t which) const { return read_word(job.at + which); }
  RONDO_FN bool finishes() const { return (job.how & kFinishes) != 0; }
  // Describes the wait for a line of incoming slot `which`.
  RONDO_FN Awaited awaited(int which) const {
    const auto peer = static_cast<std::int32_t>(word(kFromPeers) >> 32 * which);
    return {CtaCall::channel(), peer, word(kStep), false};
  }
};

}  // namespace rondo::cuda
