// SPDX-License-Identifier: Apache-2.0
// Endpoint: a UCX connection from this rank's worker to another rank's worker. All links between
// the two ranks share it.
//
// Guarantees: failure() reports that UCX has found the peer gone. After shut() no more data moves;
// pending operations end soon, by the worker's progress, whatever the peer does.
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
  // UCX has connected to the peer's worker. Small messages then leave without the peer's progress.
  bool is_connected() const { return connecting_.is_done(); }
  // Requests an answer of the peer's worker. It arrives after all earlier messages have arrived.
  void ping();
  bool is_answered() const { return !ping_.is_pending(); }
  // Some sent messages are not confirmed by the peer.
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
