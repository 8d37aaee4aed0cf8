// SPDX-License-Identifier: Apache-2.0
// UcxLink: a net::Link over UCX active messages. A message's header is the active message's header,
// its body is the data.
//
// UCX buffers unexpected messages without limit, so each end grants the other its slots, and a
// message is sent only into a granted slot (sides.h). Guarantees: those of net::Link; a
// message without the token of this end's greeting is dropped. Messages sent before a close still
// arrive: the sender reports their number on the side channel, and its worker waits for their
// confirmation (worker.h). After close() UCX uses no memory of the link: if it still does, close()
// waits 0.1 s for messages in flight, then closes the endpoint, which all links to this peer share.
// A failure of UCX ends the link only a second later, because the side channel knows the cause
// better (link_watch.h). Cost: progress() checks the oldest message of each direction.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "transport/net/memory_table.h"
#include "transport/streams/link_watch.h"
#include "transport/ucx/ucp/sides.h"
#include "transport/ucx/ucp/worker.h"

namespace rondo::ucx {

// Shared by all links of a rank.
struct Hub {
  std::unique_ptr<Worker> worker;
  net::MemoryTable memory;
  net::Vigilance vigilance;
};

class UcxLink final : public net::Link {
 public:
  // `connect` sends this end's blob to the peer.
  using Connect = std::function<Result<std::unique_ptr<net::SideChannel>>(ByteSpan)>;
  static Result<std::unique_ptr<UcxLink>> connect(const net::LinkName& name, Hub& hub,
                                                  const Connect& connect);
  // `channel` holds the blob of the connecting end.
  static Result<std::unique_ptr<UcxLink>> accept(Hub& hub,
                                                 std::unique_ptr<net::SideChannel> channel);
  ~UcxLink() override { close(); }

  const net::LinkName& name() const override { return name_; }
  std::optional<net::Request> isend(const CallRecord& record, std::span<const std::byte> body,
                                    net::MemoryKey key, std::uint32_t tag = 0) override;
  std::optional<net::Request> irecv(CallRecord& record, std::span<std::byte> room,
                                    net::MemoryKey key) override;
  net::Completion test(net::Request request) const override;
  bool progress() override;
  net::LinkState state() const override { return state_; }
  const Error& error() const override { return *error_; }
  void close() override;

 private:
  UcxLink(const net::LinkName& name, int peer, Hub& hub);
  Status meet();
  void open();
  bool follow_channel();
  bool settle(bool received);
  void fail_with(const std::string& why, net::LinkState state = net::LinkState::kEnded,
                 StatusCode status = StatusCode::kRemoteError);
  void release();

  // UCX's callbacks write here.
  struct Sides {
    explicit Sides(const Worker& worker)
        : send(worker.ucp()), receive(worker.ucp(), worker.get()) {}
    bool is_pending() const { return send.is_pending() || receive.is_pending(); }
    SendSide send;
    ReceiveSide receive;
  };

  const net::LinkName name_;
  const int peer_;
  Hub& hub_;
  std::unique_ptr<Sides> sides_;
  const std::uint64_t token_;  // this end's
  std::uint64_t their_token_ = 0;
  std::unique_ptr<net::SideChannel> channel_;
  std::shared_ptr<Endpoint> endpoint_;
  net::LinkState state_ = net::LinkState::kOpening;
  net::LinkWatch watch_;
  std::optional<Error> error_;
};

}  // namespace rondo::ucx
