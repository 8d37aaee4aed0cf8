// Worker: a context of UCX with one worker, and the endpoints to other ranks' workers: what all
// links of a rank share.
//
// Guarantees: messages reach the ends whose token they carry, by progress(); those for nobody are
// dropped. An endpoint lives as long as the worker, so that what a closed link had sent still goes.
// The end waits a quarter of a second at most for peers to confirm what they were sent, and five
// seconds for UCX to let go. One thread at a time. Cost: open() takes UCX some 10 ms.
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

namespace rondo::ucx {

class SendSide;
class ReceiveSide;

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

  std::uint64_t add(Ends ends);  // their token
  void remove(std::uint64_t token) { ends_.erase(token); }
  // kRemoteError: the endpoint to that worker has ended.
  Result<std::shared_ptr<Endpoint>> endpoint_to(const Greeting& peer);

  bool progress();  // true if something moved
  bool arm() { return ucp_.worker_arm(worker_) != UCS_ERR_BUSY; }
  int fd() const { return fd_; }
  // Progress until it holds, no longer than that.
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
  int fd_ = -1;  // UCX's
  bool takes_device_memory_ = false;
  std::unordered_map<std::uint64_t, Ends> ends_;              // by token
  std::map<std::uint64_t, std::shared_ptr<Endpoint>> peers_;  // by their worker's number
};

}  // namespace rondo::ucx
