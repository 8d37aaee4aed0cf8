// SPDX-License-Identifier: Apache-2.0
// Groups: calls that a thread collects between ncclGroupStart and the outermost ncclGroupEnd.
//
// Guarantees: each thread has its own group. Argument errors are returned at once and again by the
// outermost end, which then only destroys retired communicators. Set-up work (init, split, ...) of
// several ranks in this process runs on one thread per rank, before the group's calls.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "api/comm.h"
#include "api/execute.h"
#include "api/nccl.h"
#include "api/thread_record.h"
#include "base/result.h"

namespace rondo::api {

ncclResult_t start_group();
ncclResult_t end_group();

// Runs the request now, or at the end of the open group.
ncclResult_t submit(CommPin&& comm, Request&& request, const char* function);

// Work that waits for other ranks: creating a communicator, registering a window.
struct SetUp {
  SetUp() = default;
  SetUp(SetUp&& other) noexcept
      : parent(std::move(other.parent)),
        run(std::move(other.run)),
        cancel(std::exchange(other.cancel, nullptr)),
        blocking(other.blocking) {}
  SetUp& operator=(SetUp&&) = delete;
  ~SetUp() {
    if (cancel) cancel();
  }
  Status run_now() {
    cancel = nullptr;
    return run();
  }

  CommPin parent;  // run() takes its turn in this communicator's queue; may be empty
  std::function<Status()> run;
  std::function<void()> cancel;  // called if run() never ran: its group had an error
  bool blocking = true;
};
// Runs the work now or at the end of the open group. Nonblocking work runs on a thread of its own
// (returns ncclInProgress).
ncclResult_t submit_set_up(SetUp work);

// Destroys a retired communicator now or at the end of the open group. In a group, all
// communicators are thus retired before the first destruction waits for GPU work.
void tear_down(std::unique_ptr<Comm> comm);

// Removes the open group's calls of this communicator, which is being destroyed or aborted.
void drop_from_group(ncclComm_t comm);

// Creates communicators: the handle at once, the engine's communicator when all ranks have joined.
//
// Blocks until all ranks have joined. `aborted` returns true once the new communicator is destroyed
// or aborted, which ends the wait.
using Made = Result<std::shared_ptr<Communicator>>;
using Maker = std::function<Made(std::function<bool()> aborted)>;

struct NewComm {
  CommConfig config;
  CommOptions options;
  CommPin parent;      // for split, shrink and grow: creation takes a turn in its queue
  bool member = true;  // false: this rank takes part but gets NULL
};

// Sets *out to a new handle and creates its communicator: now, at the end of the open group, or on
// a thread of its own (nonblocking). If creation fails, a blocking caller's *out becomes NULL.
ncclResult_t make_comm(ncclComm_t* out, NewComm description, const Maker& maker);

}  // namespace rondo::api
