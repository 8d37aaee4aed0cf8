// SPDX-License-Identifier: Apache-2.0
// The report of NCCL's RAS service, as text and as JSON, from a JobView: what `ncclras` prints, and
// what programs read that watch NCCL jobs (Ray Train, SGLang).
//
// The JSON has NCCL's keys, order and types, and one more at its end, "rondo": whom the job waits
// for, and of each waiting rank the rank, the call and the time. Guarantees: ranks_count +
// missing_ranks_count is at most size.
#pragma once

#include <string>

#include "collectives/status/job_view.h"

namespace rondo {

struct RasFacts {
  std::string version{};  // ncclGetVersion's, "2.28.9"
  int cuda_runtime = -1, cuda_driver = -1;
};

std::string ras_json(const JobView& view, const RasFacts& facts);
// verbose: every rank, not only those of which something is to be said.
std::string ras_text(const JobView& view, const RasFacts& facts, bool verbose);

std::string ras_timestamp();  // local time, "2026-11-26 18:00:05"

}  // namespace rondo
