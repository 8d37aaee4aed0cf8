// SPDX-License-Identifier: Apache-2.0
// Backend: the library under test, as one rank uses it. RondoBackend is the product's; tests use
// their own, for example one that corrupts results.
//
// Calls return the library's status; after an error last_error() returns its message. issue() may
// return before the result is ready: wait() completes all issued calls.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "api/rondo.h"
#include "bench/gpu_lane.h"
#include "bench/kinds.h"

namespace rondo::bench {

struct Call {
  Kind kind;
  const Layout* layout;
  const void* send;
  void* recv;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
};

struct JoinOptions {
  int ranks;
  int rank;
  ncclUniqueId id;
  bool own_stream = false;  // calls are queued on a stream; wait() waits for them
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
  int device = -1;  // CUDA device of the rank; -1: host memory
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual int version() = 0;
  virtual ncclResult_t make_id(ncclUniqueId* id) = 0;
  virtual ncclResult_t join(const JoinOptions& options) = 0;
  virtual ncclResult_t leave() = 0;
  virtual void abort() = 0;  // from any thread; blocked calls return

  virtual ncclResult_t issue(const Call& call) = 0;
  virtual ncclResult_t wait() = 0;
  virtual ncclResult_t barrier() = 0;
  virtual ncclResult_t group_start() = 0;
  virtual ncclResult_t group_end() = 0;

  // The operation sum of factor * input.
  virtual ncclResult_t make_mulsum(ncclDataType_t type, int factor, ncclRedOp_t* op) = 0;
  virtual ncclResult_t destroy_op(ncclRedOp_t op) = 0;

  virtual ncclResult_t allocate(std::size_t bytes, void** memory) = 0;  // ncclMemAlloc
  virtual ncclResult_t free(void* memory) = 0;
  virtual ncclResult_t register_buffer(void* memory, std::size_t bytes, bool window) = 0;
  virtual ncclResult_t deregister_buffers() = 0;

  // The rank's GPU after join(); nullptr: the rank uses host memory.
  virtual GpuLane* gpu() { return nullptr; }

  // Maximum GB/s, each way, between the rank's host and other hosts; 0: unknown.
  virtual double network_gbs() { return 0; }

  // The library's estimate of the call's time; does not make the call. 0: no estimate.
  virtual double predicted_us(const Call&) { return 0; }
  virtual std::string last_plan() = 0;  // of the last call: "two_shot direct"; "": unknown
  virtual std::string last_error() = 0;
  virtual std::size_t memory_used() = 0;  // bytes that the communicator holds
};

using MakeBackend = std::function<std::unique_ptr<Backend>()>;

// RondoBackend: the Backend that measures Rondo itself, by nccl.h and rondo.h.
std::unique_ptr<Backend> make_rondo_backend();

}  // namespace rondo::bench
