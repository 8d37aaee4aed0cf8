// SPDX-License-Identifier: Apache-2.0
// PyTorch's flight-recorder dump of the same records, for its analyser torchfrtrace.
//
// One pickle per rank, named rondo_RANK. It has the fields of dump version 2.10: version,
// pg_config, pg_status, comm_lib_version, entries. A communicator is a process group; the ranks of
// the largest one are the job's ranks. Operations have the library name "nccl", because torch 2.13
// and 2.14 refuse names that they do not know. Messages are left out: the analyser matches an entry
// with those of all ranks of its group. Reading a dump needs only Python's pickle.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/trace/call_skew.h"

namespace rondo::trace {

struct FlightRecord {
  int rank = 0;  // of the job
  std::string pickle;
};
std::vector<FlightRecord> flight_records(std::span<const TracedComm> comms);

// Writes all dumps into a folder, which is made if its parent exists. Returns their number.
Result<int> write_flight_records(const std::string& folder, std::span<const TracedComm> comms);

}  // namespace rondo::trace
