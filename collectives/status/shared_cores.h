// SPDX-License-Identifier: Apache-2.0
// shared_cores(): finds ranks of a host that made their newest calls on the same CPU.
//
// Such ranks take turns on it, and each call waits for a switch between them. It may last for a
// moment only: a rank that nobody has bound moves when it waits (kernels/host/nudge.h). Guarantees:
// names only ranks in host memory that run, and each CPU once, though its ranks have
// several communicators. Cost: one pass over all ranks.
//
//   for (const SharedCpu& shared : shared_cores(view)) show(shared.text, kSharedCpuRemedy);
#pragma once

#include <string>
#include <vector>

#include "collectives/status/job_view.h"

namespace rondo {

struct SharedCpu {
  std::string host;        // its name; "": unknown
  int cpu = -1;            // the kernel's number
  std::vector<int> ranks;  // of the first communicator in which it was found; at least two
  std::string text;        // what was found
};
inline constexpr const char* kSharedCpuRemedy =
    "if the host has a core for each rank, start them by rondo run, or by a launcher that binds "
    "each to its own";

std::vector<SharedCpu> shared_cores(const JobView& view);

}  // namespace rondo
