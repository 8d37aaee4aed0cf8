// SPDX-License-Identifier: Apache-2.0
// segments_of(): finds the shared memory of a process's communicators, for tools (rondo ps, rondo
// trace).
//
// Guarantees: it reads only /proc; the process does not notice. Cost: a few system calls per open
// descriptor of the process.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "transport/shm/host_segment.h"

namespace rondo::shm {

// Paths (/proc/PID/fd/N) of the process's HostSegments, each once, in the order of descriptors. Of
// a process that is watched (collectives/watch) only those of the watch, which show the same ranks.
// Errors: there is no such process, or it belongs to another user.
Result<std::vector<std::string>> segments_of(int pid);

}  // namespace rondo::shm
