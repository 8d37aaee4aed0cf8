// Backend: the library under measurement as one rank sees it. The product's is RondoBackend; tests
// put their own in, for example one that corrupts results.
//
// Calls return the library's status; last_error() then has its sentence. issue() may return before
// the result is there: wait() is the end of all issued calls.
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
  bool own_stream = false;  // calls go through a stream and are waited for by wait()
  int cta_policy = NCCL_CONFIG_UNDEF_INT;
  int device = -1;  // CUDA device that the rank lives on; -1: host memory
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual int version() = 0;
  virtual ncclResult_t make_id(ncclUniqueId* id) = 0;
  virtual ncclResult_t join(const JoinOptions& options) = 0;
  virtual ncclResult_t leave() = 0;
  virtual void abort() = 0;  // from any thread; ends calls that wait

  virtual ncclResult_t issue(const Call& call) = 0;
  virtual ncclResult_t wait() = 0;
  virtual ncclResult_t barrier() = 0;
  virtual ncclResult_t group_start() = 0;
  virtual ncclResult_t group_end() = 0;

  // sum of factor * input
  virtual ncclResult_t make_mulsum(ncclDataType_t type, int factor, ncclRedOp_t* op) = 0;
  virtual ncclResult_t destroy_op(ncclRedOp_t op) = 0;

  virtual ncclResult_t allocate(std::size_t bytes, void** memory) = 0;  // by the library
  virtual ncclResult_t free(void* memory) = 0;
  virtual ncclResult_t register_buffer(void* memory, std::size_t bytes, bool window) = 0;
  virtual ncclResult_t deregister_buffers() = 0;

  // The rank's GPU, once it has joined; nullptr: it lives in host memory.
  virtual GpuLane* gpu() { return nullptr; }

  // GB/s that the rank's host can exchange with other hosts at most, each way; 0: not known.
  virtual double network_gbs() { return 0; }

  // What the library says that the call would take, without making it; 0: it does not say.
  virtual double predicted_us(const Call&) { return 0; }
  virtual std::string last_plan() = 0;  // of the last call: "two_shot direct", or ""
  virtual std::string last_error() = 0;
  virtual std::size_t memory_used() = 0;  // bytes that the communicator holds
};

using MakeBackend = std::function<std::unique_ptr<Backend>()>;

}  // namespace rondo::bench
