// SPDX-License-Identifier: Apache-2.0
// Runs checked calls: on the caller's thread, on a rondo stream, on the worker of a nonblocking
// communicator or, for GPUs, on the caller's CUDA stream. Only this file makes the choice.
//
// Guarantees: calls of one communicator run in the order in which they were issued, whatever their
// streams. With the NULL stream and a blocking communicator they are complete on return. A list of
// several calls is one group: all its ranks in this process run together.
// Cost: one call on a blocking communicator takes two atomic operations in addition to the engine's
// cost. It allocates nothing on the caller's thread if such a call was made before.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "api/comm.h"
#include "api/nccl.h"

namespace rondo::api {

// One API call. `more`: calls that run after `call`, on its stream, if one function needs several
// (rondo.h's v-collectives).
struct Request {
  Call call;
  std::vector<Call> more;
  std::shared_ptr<const profiler::CallEvent> event;  // for a profiler plugin; may be null
  cudaEvent_t launch_event = nullptr;                // recorded on a GPU's stream behind the call
};

struct GroupEntry {
  ncclComm_t comm;
  Request request;
};

// One communicator's share of a batch.
struct Share {
  CommPin comm;
  Turn turn;  // empty until the batch is in the communicator's queue
  std::vector<Call> calls;
  std::vector<std::shared_ptr<const profiler::CallEvent>> events;  // to which calls point
  struct LaunchEvent {
    cudaEvent_t event;
    cudaStream_t stream;
  };
  std::vector<LaunchEvent> launch_events;

  void add(const Request& request);
};

// CallBatch: calls that run together, sorted by communicator.
//
// Guarantees: clear() releases the communicators and the turns in their queues but keeps the
// memory. Refilling a batch with no more calls than before allocates nothing
// (CallBatch::of_thread()).
class CallBatch {
 public:
  CallBatch() = default;
  CallBatch(CallBatch&& other) noexcept
      : works(std::move(other.works)),
        shares_(std::move(other.shares_)),
        used_(std::exchange(other.used_, 0)) {}
  CallBatch& operator=(CallBatch&&) = delete;
  // The calling thread's reusable batch. For calls that are complete when the API function returns.
  static CallBatch& of_thread();

  std::span<Share> shares() { return {shares_.data(), used_}; }
  std::span<const Share> shares() const { return {shares_.data(), used_}; }
  Share& add_share(CommPin&& comm);
  void clear();

  std::vector<Communicator::Work> works;  // passed to the engine while the batch runs

 private:
  std::vector<Share> shares_;  // only the first used_ are valid
  std::size_t used_ = 0;
};

// Clears the batch at the end of a scope.
class ClearedBatch {
 public:
  explicit ClearedBatch(CallBatch& batch) : batch_(batch) {}
  ~ClearedBatch() { batch_.clear(); }
  ClearedBatch(const ClearedBatch&) = delete;
  ClearedBatch& operator=(const ClearedBatch&) = delete;

 private:
  CallBatch& batch_;
};

// A single call outside any group.
ncclResult_t execute_one(CommPin&& comm, Request&& request, const char* function);

// A group; entries are in issue order.
ncclResult_t execute_group(std::span<const GroupEntry> entries);

}  // namespace rondo::api
