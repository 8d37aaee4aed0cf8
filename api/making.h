// SPDX-License-Identifier: Apache-2.0
// Creates communicators: the handle at once, the engine's communicator when all ranks have joined.
#pragma once

#include <functional>
#include <memory>

#include "api/comm.h"

namespace rondo::api {

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
