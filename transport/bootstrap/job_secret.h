// The job's secret (RONDO_SECRET): mixed into the secret of every id, so that who only reads an id,
// or can compute one (NCCL_COMM_ID, a launcher's variables), joins nothing.
//
// RONDO_SECRET is the secret itself, 16 characters or more, or @FILE: a file of this user's that
// nobody else may read, whose text, without white space at its end, is the secret. `rondo run`
// makes one for each job. Read again only where the variable has changed: a job goes on when its
// file has gone.
#pragma once

#include <string_view>

#include "base/result.h"
#include "transport/bootstrap/secret.h"

namespace rondo::bootstrap {

// What the ranks of an id prove to each other: the id's secret, or with RONDO_SECRET what derives
// from both. kInvalidArgument where RONDO_SECRET is too short or its file is not as above.
Result<Secret> session_secret(const Secret& of_id);

bool has_job_secret();
// Where RONDO_SECRET is not set: one WARN of the process that `who` can join "ranks that ...".
void warn_without_job_secret(std::string_view ranks, std::string_view who);

}  // namespace rondo::bootstrap
