// UcxLink: a net::Link over active messages of UCX: a message's header is the active message's, its
// body the data.
//
// UCX buffers without bound what nobody has asked for, so each end grants the other its slots, and
// a message goes when there is one for it (receive_side.h). Guarantees: those of net::Link; a
// message without the token of this end's greeting gets nothing in. What had been sent before a
// close still arrives: its sender says on the side channel how many messages that were, and its
// worker stays until they are confirmed (worker.h). After close() UCX uses no memory of the link's:
// where it still does, close() waits for it, a tenth of a second for messages on their way, then
// it ends the endpoint that all links to this peer share. A failure of UCX's is believed a second
// later than the side channel, which knows why. Cost: a look at the oldest message of each
// direction.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "transport/net/memory_table.h"
#include "transport/streams/link_end.h"
#include "transport/ucx/ucp/receive_side.h"
#include "transport/ucx/ucp/send_side.h"

namespace rondo::ucx {

// What a rank's links share.
struct Hub {
  std::unique_ptr<Worker> worker;
  net::MemoryTable memory;
  net::Vigilance vigilance;
};

class UcxLink final : public net::Link {
 public:
  // To a peer: `connect` takes the blob of this side.
  using Connect = std::function<Result<std::unique_ptr<net::SideChannel>>(ByteSpan)>;
  static Result<std::unique_ptr<UcxLink>> connect(const net::LinkName& name, Hub& hub,
                                                  const Connect& connect);
  // From one: its blob is there.
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

  // What UCX's callbacks write to.
  struct Sides {
    explicit Sides(const Worker& worker) : send(worker.ucp()), receive(worker) {}
    bool is_pending() const { return send.is_pending() || receive.is_pending(); }
    SendSide send;
    ReceiveSide receive;
  };

  const net::LinkName name_;
  const int peer_;
  Hub& hub_;
  std::unique_ptr<Sides> sides_;
  const std::uint64_t token_;  // of this end
  std::uint64_t their_token_ = 0;
  std::unique_ptr<net::SideChannel> channel_;
  std::shared_ptr<Endpoint> endpoint_;
  net::LinkState state_ = net::LinkState::kOpening;
  net::LinkEnd end_;
  std::optional<Error> error_;
};

}  // namespace rondo::ucx
