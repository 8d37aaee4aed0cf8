// SendSide: the queued messages of a UCX link.
//
// Guarantees: only messages that the peer has granted are passed to UCX, so the peer's UCX buffers
// no more than the peer has room for. After an error nothing moves. Cost: progress() with nothing
// to send is a few loads; only UCX allocates.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transport/net/net.h"
#include "transport/ucx/ucp/message.h"
#include "transport/ucx/ucp/worker.h"

namespace rondo::ucx {

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

}  // namespace rondo::ucx
