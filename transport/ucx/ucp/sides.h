// SPDX-License-Identifier: Apache-2.0
// SendSide, ReceiveSide: the two directions of a UCX link.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/net/net.h"
#include "transport/ucx/ucp/endpoint.h"

namespace rondo::ucx {

// SendSide: the queued messages of a UCX link.
//
// Guarantees: only messages that the peer has granted are passed to UCX, so the peer's UCX buffers
// no more than the peer has room for. After an error nothing moves. Cost: progress() with nothing
// to send is a few loads; only UCX allocates.
class SendSide {
 public:
  explicit SendSide(const UcpLibrary& ucp) : ucp_(ucp) {}

  // Queues a message, also before open(). nullopt: kDepth are queued.
  std::optional<net::Request> push(const CallRecord& record, std::span<const std::byte> body,
                                   ucs_memory_type_t memory, std::uint32_t tag);
  // token: the peer's.
  void open(std::shared_ptr<Endpoint> endpoint, std::uint64_t token);
  bool progress();  // true if something moved
  void take(const Grant& grant);
  void close() { endpoint_.reset(); }  // drops all queued messages

  std::uint64_t sent() const { return sent_; }
  bool is_empty() const { return sent_ == pushed_; }
  bool is_confirmed() const { return sent_ <= confirmed_; }  // the peer has confirmed all
  bool is_pending() const;                                   // UCX uses a body
  const std::optional<Error>& error() const { return error_; }

 private:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;
  struct Message {
    Header header{};
    std::span<const std::byte> body{};
    ucs_memory_type_t memory = UCS_MEMORY_TYPE_HOST;
    Operation sending{};
  };
  bool post();
  bool settle();

  const UcpLibrary& ucp_;
  std::shared_ptr<Endpoint> endpoint_;
  std::uint64_t token_ = 0;
  std::array<Message, kDepth> messages_;
  std::uint64_t pushed_ = 0, posted_ = 0, sent_ = 0;
  std::uint64_t granted_ = 0, confirmed_ = 0;
  std::optional<Error> error_;
};

// ReceiveSide: the posted receives of a UCX link, and the grants that it sends the peer for them.
//
// Guarantees: those of net::Link: messages arrive whole, in order, only into posted room. A message
// without a grant, or longer than its room, is dropped and ends the link. A message is copied from
// UCX's buffer into its room, so only the worker's progress writes there. Cost: a copy; one grant
// for all receives that were posted between two calls of progress().
class ReceiveSide {
 public:
  ReceiveSide(const UcpLibrary& ucp, ucp_worker_h worker) : ucp_(ucp), worker_(worker) {}

  // Queues a receive, also before open(). nullopt: kDepth are queued.
  std::optional<net::Request> push(CallRecord& record, std::span<std::byte> room,
                                   ucs_memory_type_t memory);
  // token: the peer's.
  void open(std::shared_ptr<Endpoint> endpoint, std::uint64_t token);
  bool progress();  // true if a message has arrived
  void close() { endpoint_.reset(); }
  // Takes a message that arrived; called by the worker's callback.
  ucs_status_t take(const Header& header, void* data, std::size_t bytes, bool by_rendezvous);

  net::Completion test(std::uint64_t number) const;
  std::uint64_t received() const { return received_; }
  bool is_idle() const { return received_ == pushed_; }  // no receive is outstanding
  bool is_pending() const;                               // UCX uses a room or the grant
  const std::optional<Error>& error() const { return error_; }

 private:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;
  struct Message {
    CallRecord* record = nullptr;
    std::span<std::byte> room{};
    ucs_memory_type_t memory = UCS_MEMORY_TYPE_HOST;
    bool has_come = false;  // the header; the body too, once `receiving` is done
    Header header{};
    std::uint64_t bytes = 0;
    Operation receiving{};
  };
  bool settle();
  void grant();

  const UcpLibrary& ucp_;
  const ucp_worker_h worker_;  // that receives
  std::shared_ptr<Endpoint> endpoint_;
  std::array<Message, kDepth> messages_;
  std::uint64_t pushed_ = 0, received_ = 0;
  Grant grant_{};  // the last one
  Operation granting_;
  std::optional<Error> error_;
};

}  // namespace rondo::ucx
