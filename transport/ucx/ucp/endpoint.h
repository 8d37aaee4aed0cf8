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

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/types.h"
#include "transport/ucx/ucp/operation.h"

namespace rondo::ucx {

// The active messages of workers: a Header and a body; a Grant; a byte that asks for an answer.
inline constexpr unsigned kMessageId = 0, kGrantId = 1, kPingId = 2;

// Precedes a message's body, which is the active message's data.
struct Header {
  std::uint64_t token;   // Greeting::token of the destination
  std::uint64_t number;  // message number
  std::uint32_t tag;
  std::uint32_t unused;
  CallRecord record;
};
static_assert(sizeof(Header) == 40);

// Has no data. UCX buffers all that arrives, so a sender sends only granted messages.
struct Grant {
  std::uint64_t token;
  std::uint64_t offered;   // total number of receives
  std::uint64_t received;  // total number of messages received
};
static_assert(sizeof(Grant) == 24);

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
