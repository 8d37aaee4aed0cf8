// SPDX-License-Identifier: Apache-2.0
// Text for a device without progress: the commands in every hardware queue and the unfinished
// dependencies of each one, so that a cycle of waits can be read from it.
//
//   device 0, queue 1:
//     #52 event wait (stream 3), behind #48 messages (stream 4)
//     #53 graph end (stream 3)
//
// Commands are numbered in the order of the calls that made them. The first command of a queue runs
// if it is behind none.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tests/simt/device/command.h"

namespace rondo::simt {

// queued: by device * queues + queue. Under the platform's mutex.
std::string standstill_text(const std::vector<std::deque<CommandRef>>& queued, int queues);

}  // namespace rondo::simt
