// SPDX-License-Identifier: Apache-2.0
// How a rank uses the cores of its host: how long its waits keep a core, whether it leaves the core
// of a peer, which stores carry its data to far cores, and how many threads help it.
//
// Warns once for each process if ranks of the host are bound to too few cores, or if the threads
// asked for are more than the cores. Cost: where the stores are chosen by a measurement, that of
// the distance to each peer (kernels/host/core_distance.h).
#pragma once

#include <span>
#include <string>

#include "collectives/communicator/communicator_state.h"
#include "collectives/context/init_record.h"

namespace rondo {

// The rank's facts and its view of the host are known. records: of all ranks. stores: the value of
// RONDO_NT_STORES, "0", "1" or "auto".
void use_cores(CommunicatorState& state, std::span<const InitRecord> records,
               const std::string& stores);

}  // namespace rondo
