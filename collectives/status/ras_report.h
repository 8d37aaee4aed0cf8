// SPDX-License-Identifier: Apache-2.0
// The report of NCCL's RAS service, as text and as JSON, from a JobView: what `ncclras` prints, and
// what programs read that watch NCCL jobs (Ray Train, SGLang).
//
// The JSON has NCCL's keys, order and types, and one more at its end, "rondo": whom the job waits
// for, and of each waiting rank the rank, the call and the time. Guarantees: ranks_count +
// missing_ranks_count is at most size.
//
// status_words(): what a client of the status service can say (docs/operate/status.md): the lines
// of NCCL's RAS protocol, and VIEW, with which processes and `rondo ps` ask.
//
//   CLIENT PROTOCOL n, TIMEOUT seconds, SET FORMAT text|json   for the next words
//   STATUS, VERBOSE STATUS     the report of the whole job, then the connection closes
//   MONITOR groups             events without end
//   DIAGNOSTICS                the settings that differ between processes, then it closes
//   VIEW OWN|HOST|JOB          a JobView as JSON, then it closes
// A word that is not known is answered by NCCL's ERROR line, and the client may go on.
//
// Answers that need other processes are tasks of the server (gather.h). Guarantees: no word changes
// the job. The sources must live as long as the words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/status/own_ranks.h"
#include "transport/status/user_folder.h"
#include "transport/status/visitor.h"

namespace rondo {

struct RasFacts {
  std::string version{};  // ncclGetVersion's, "2.28.9"
  int cuda_runtime = -1, cuda_driver = -1;
};

std::string ras_json(const JobView& view, const RasFacts& facts);
// verbose: every rank, not only those of which something is to be said.
std::string ras_text(const JobView& view, const RasFacts& facts, bool verbose);

// Whether the settings of the processes that answered are equal, a line for each variable that
// differs, and for each process without an answer.
std::string ras_diagnostics(const JobView& view);

std::string ras_timestamp();  // local time, "2026-11-26 18:00:05"

struct StatusSources {
  const OwnRanks& ranks;
  const std::optional<status::UserFolder>& folder;  // of the sockets of other processes
};

std::vector<status::Word> status_words(const StatusSources& sources);

}  // namespace rondo
