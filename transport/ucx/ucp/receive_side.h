// ReceiveSide: the messages that a link over UCX has offered room for, and the grants that say so
// to the peer.
//
// Guarantees: those of net::Link: whole, in order, only into room that was offered; what comes
// without a grant, or longer than its room, is dropped and ends the link. A message is copied into
// its room from where UCX has it, so nothing writes there but the worker's progress. Cost: a copy;
// a grant for each run of receives that were offered between two calls of progress().
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

  // Queued, also before open(). Nothing: kDepth of them are.
  std::optional<net::Request> push(CallRecord& record, std::span<std::byte> room,
                                   ucs_memory_type_t memory);
  // token: of the peer.
  void open(std::shared_ptr<Endpoint> endpoint, std::uint64_t token);
  bool progress();  // true if a message has come
  void close() { endpoint_.reset(); }
  // By UCX, for the worker's callback.
  ucs_status_t take(const Header& header, void* data, std::size_t bytes, bool by_rendezvous);

  net::Completion test(std::uint64_t number) const;
  std::uint64_t received() const { return received_; }
  bool is_idle() const { return received_ == pushed_; }  // no room is offered
  bool is_pending() const;                               // UCX uses a room, or the grant
  const std::optional<Error>& error() const { return error_; }

 private:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;
  struct Message {
    CallRecord* record = nullptr;
    std::span<std::byte> room{};
    ucs_memory_type_t memory = UCS_MEMORY_TYPE_HOST;
    bool has_come = false;  // the header; the body, once `receiving` is done
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
