// Endpoint: what a worker of UCX reaches another one by. All links between two ranks share it.
//
// Guarantees: a peer that UCX finds to be gone is told by failure(). An endpoint that is shut moves
// nothing more: what was pending on it ends by the worker's progress, soon, whatever the peer does.
//
//   RONDO_TRY(auto endpoint, Endpoint::open(ucp, worker, greeting.address));
//   endpoint->shut();
//   while (!endpoint->is_shut()) ucp.worker_progress(worker);
#pragma once

#include <memory>

#include "base/bytes.h"
#include "transport/ucx/ucp/operation.h"

namespace rondo::ucx {

class Endpoint {
 public:
  static Result<std::shared_ptr<Endpoint>> open(const UcpLibrary& ucp, ucp_worker_h worker,
                                                ByteSpan address);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ucp_ep_h get() const { return endpoint_; }
  ucs_status_t failure() const { return failure_; }  // UCS_OK: none
  // UCX has met the peer's worker: from then on small messages leave without its help.
  bool is_connected() const { return connecting_.is_done(); }
  // Asks the peer's worker for an answer: it comes once all that was sent before has come.
  void ping();
  bool is_answered() const { return !ping_.is_pending(); }
  // Messages may be on their way that the peer has not confirmed.
  void expect_silence() { is_unconfirmed_ = true; }
  bool is_unconfirmed() const { return is_unconfirmed_ && failure_ == UCS_OK; }
  void shut();
  bool is_shut() const {
    return endpoint_ == nullptr && !closing_.is_pending() && !connecting_.is_pending() &&
           !ping_.is_pending();
  }

 private:
  explicit Endpoint(const UcpLibrary& ucp) : ucp_(ucp) {}
  ucp_request_param_t without_memory(Operation& operation);
  static void failed(void* endpoint, ucp_ep_h, ucs_status_t status) {
    static_cast<Endpoint*>(endpoint)->failure_ = status;
  }

  const UcpLibrary& ucp_;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_t failure_ = UCS_OK;
  bool is_unconfirmed_ = false;
  Operation connecting_, ping_, closing_;
};

}  // namespace rondo::ucx
