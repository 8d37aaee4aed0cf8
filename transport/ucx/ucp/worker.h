// SPDX-License-Identifier: Apache-2.0
// Worker: a UCX context with one worker, and its endpoints to other ranks' workers. All links of a
// rank share it.
//
// Guarantees: progress() passes each message to the link whose token it carries; a message with an
// unknown token is dropped. An endpoint exists as long as the worker, so messages of a closed link
// are still sent. The destructor waits at most 0.25 s for peers to confirm messages, and at most
// 5 s for UCX to close its connections. One thread at a time. Cost: open() takes UCX some 10 ms.
//
//   RONDO_TRY(auto worker, Worker::open());
//   const std::uint64_t token = worker->add({sends, receives});
//   RONDO_TRY(auto endpoint, worker->endpoint_to(greeting));
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <unordered_map>

#include "transport/ucx/greeting.h"
#include "transport/ucx/ucp/endpoint.h"
#include "transport/ucx/ucp/sides.h"

namespace rondo::ucx {

class Worker {
 public:
  struct Ends {
    SendSide* send;
    ReceiveSide* receive;
  };
  static Result<std::unique_ptr<Worker>> open();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const UcpLibrary& ucp() const { return ucp_; }
  ucp_worker_h get() const { return worker_; }
  bool takes_device_memory() const { return takes_device_memory_; }
  Greeting greeting(std::uint64_t token) const { return {number_, token, address_}; }

  std::uint64_t add(Ends ends);  // returns their token
  void remove(std::uint64_t token) { ends_.erase(token); }
  // kRemoteError: the endpoint to that worker has ended.
  Result<std::shared_ptr<Endpoint>> endpoint_to(const Greeting& peer);

  bool progress();  // true if something moved
  bool arm() { return ucp_.worker_arm(worker_) != UCS_ERR_BUSY; }
  int fd() const { return fd_; }
  // Calls progress until holds() is true, at most for `at_most`.
  template <class Holds>
  bool until(std::chrono::milliseconds at_most, Holds&& holds) {
    const auto deadline = std::chrono::steady_clock::now() + at_most;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      ucp_.worker_progress(worker_);
    }
    return true;
  }

 private:
  explicit Worker(const UcpLibrary& ucp) : ucp_(ucp) {}
  Status open_context();
  Status open_worker();
  Status listen(unsigned id, ucp_am_recv_callback_t callback);
  void close_endpoints();

  const UcpLibrary& ucp_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::uint64_t number_ = 0;
  Bytes address_;
  int fd_ = -1;  // owned by UCX
  bool takes_device_memory_ = false;
  std::unordered_map<std::uint64_t, Ends> ends_;              // key: token
  std::map<std::uint64_t, std::shared_ptr<Endpoint>> peers_;  // key: the peer's worker number
};

}  // namespace rondo::ucx
