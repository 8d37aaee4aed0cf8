// ReceiveSide: the posted receives of a UCX link, and the grants that it sends the peer for them.
//
// Guarantees: those of net::Link: messages arrive whole, in order, only into posted room. A message
// without a grant, or longer than its room, is dropped and ends the link. A message is copied from
// UCX's buffer into its room, so only the worker's progress writes there. Cost: a copy; one grant
// for all receives that were posted between two calls of progress().
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transport/net/net.h"
#include "transport/ucx/ucp/message.h"
#include "transport/ucx/ucp/worker.h"

namespace rondo::ucx {

class ReceiveSide {
 public:
  explicit ReceiveSide(const Worker& worker) : worker_(worker) {}

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

  const Worker& worker_;
  std::shared_ptr<Endpoint> endpoint_;
  std::array<Message, kDepth> messages_;
  std::uint64_t pushed_ = 0, received_ = 0;
  Grant grant_{};  // the last one
  Operation granting_;
  std::optional<Error> error_;
};

}  // namespace rondo::ucx
