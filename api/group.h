// Groups: what a thread has asked for between ncclGroupStart and the outermost ncclGroupEnd.
//
// Guarantees: state is the thread's own. Argument errors are returned at once and again by the
// outermost end, which then runs nothing but ends of communicators. Set-up work of several ranks of
// this process (init, split, ...) runs on one thread each, before any calls of the group.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "api/execute.h"
#include "api/nccl.h"
#include "api/thread_words.h"
#include "base/result.h"

namespace rondo::api {

inline bool in_group() { return thread_words.group_depth > 0; }

ncclResult_t start_group();
ncclResult_t end_group();

// Remembers the first error of an open group; returns the result unchanged.
ncclResult_t note_in_group(ncclResult_t result);

// Runs the request now, or at the end of the open group.
ncclResult_t submit(CommPin&& comm, Request&& request, const char* function);

// Work that meets other ranks before it returns: making a communicator, registering a window.
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

  CommPin parent;  // run() has its turn in this communicator's queue; may be empty
  std::function<Status()> run;
  std::function<void()> cancel;  // called where it never ran: its group had an error
  bool blocking = true;
};
// Runs it now (a nonblocking one on a thread of its own: ncclInProgress) or at the end of the
// open group.
ncclResult_t submit_set_up(SetUp work);

// Ends a communicator that is retired: now, or at the end of the open group. So all communicators
// of a group have been told to end before one waits for what it has on GPUs.
void tear_down(std::unique_ptr<Comm> comm);

// Drops what the open group holds for this communicator: it is being destroyed or aborted.
void drop_from_group(ncclComm_t comm);

}  // namespace rondo::api
