// Making communicators: a handle at once, the engine's communicator when the ranks have met.
#pragma once

#include <functional>
#include <memory>

#include "api/comm.h"

namespace rondo::api {

// Blocks until the ranks have met. `aborted` turns true when the new communicator is ended
// meanwhile.
using Made = Result<std::shared_ptr<Communicator>>;
using Maker = std::function<Made(std::function<bool()> aborted)>;

struct NewComm {
  CommConfig config;
  CommOptions options;
  CommPin parent;      // of a split, shrink or grow: the making has its turn in that queue
  bool member = true;  // false: this rank only helps to make it and gets NULL
};

// Puts a handle into *out and makes what stands behind it: now, at the end of the open group, or on
// a thread of its own (nonblocking). Where making fails, a blocking caller's *out becomes NULL.
ncclResult_t make_comm(ncclComm_t* out, NewComm description, const Maker& maker);

}  // namespace rondo::api
