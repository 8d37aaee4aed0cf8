// SPDX-License-Identifier: Apache-2.0
// VerbsLink: a net::Link of one or more rails, each of one or more queue pairs.
//
// irecv() writes a credit into a ring at the sender: the address for the message. isend() writes
// the message there, split over rails and queue pairs if that is faster; each part has a header
// that rings the receiver. Nothing relies on order between queue pairs: a message has arrived when
// all of its parts have. The side channel carries both LinkEnds and reports the end of the link.
//
// A rail that is lost (rail.h) is lost at both ends, and the fate of every write is known:
//   1. The end that notices the loss stops its queue pairs of the rail and lets them drain. After
//   that no write of the peer over that rail takes effect here, however late or often it arrives.
//   Every write that was acknowledged to the peer has also completed here, because an acknowledged
//   write completes at its receiver before the flushed ones.
//   2. Only then it sends a LossNote over a rail that is up: the lost rails, the messages and parts
//   of messages it has, and the number of its credits. The peer also drops those rails, if it has
//   not yet, and sends its own note by the same steps.
//   3. The end that receives a note knows that nothing it sent is still in flight on the rails that
//   the note names. It sends again, over other rails, the parts that went by one of them and did
//   not arrive, and the credits from the first missing one on. The directions are independent.
// A slot is offered again only after its message is whole, and no part of a whole message is ever
// sent again: either the note names it, or it went by a rail that the note does not name, where it
// is sent once. Parts in flight on other rails are not affected. If a note is lost with its rail,
// the loss of that rail causes a new note about all losses so far. It can repeat parts that have
// moved to another rail meanwhile; these are skipped. If a device does not even flush, it is
// unknown what it has acknowledged to the peer, and the link ends.
//
// Puts go by one queue pair, in order, and each finally writes the count of puts so far. So if the
// second of two puts has taken effect, the first has too. Acknowledgements of two ports do not
// guarantee that: they mean that a port has accepted a write, not that the memory holds it. If that
// rail is lost, the note reports how many puts have taken effect; the others go by another rail, in
// order. So no put's data is written again after its word. But such a put then waits until the
// peer's process has noticed the loss and sent its note.
//
// Guarantees: in addition to net::Link's, a link that has ended has no queue pairs, so no peer
// writes into memory that a caller takes back. Without a rail left the link ends, with an error
// that names ranks, hosts, ports, addresses, queue pairs and the device's report. Cost: isend and
// irecv of an open link are stores and a doorbell; rings take 6 KiB per rail and queue pair.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "transport/net/net.h"
#include "transport/streams/side_channel.h"
#include "transport/verbs/ibverbs/put_side.h"
#include "transport/verbs/ibverbs/sides.h"

namespace rondo::verbs {

class VerbsLink final : public net::Link, private RailOwner {
 public:
  // `connect` sends this end's blob to the peer. pairs: maximum queue pairs per rail.
  using Connect = std::function<Result<std::unique_ptr<net::SideChannel>>(ByteSpan)>;
  static Result<std::unique_ptr<VerbsLink>> connect(const net::LinkName& name, Adapters& adapters,
                                                    int pairs, const Connect& connect);
  // `channel` holds the blob of the connecting end.
  static Result<std::unique_ptr<VerbsLink>> accept(Adapters& adapters,
                                                   std::unique_ptr<net::SideChannel> channel);
  ~VerbsLink() override = default;

  const net::LinkName& name() const override { return name_; }
  std::optional<net::Request> isend(const CallRecord& record, std::span<const std::byte> body,
                                    net::MemoryKey key, std::uint32_t tag = 0) override;
  std::optional<net::Request> irecv(CallRecord& record, std::span<std::byte> room,
                                    net::MemoryKey key) override;
  Result<net::RemoteKey> unpack_key(std::span<const std::byte> packed) override;
  void forget_key(net::RemoteKey key) override { putting_.forget(key); }
  std::optional<net::Request> iput(const net::Put& put) override;
  net::Completion test(net::Request request) const override;
  bool progress() override;
  net::LinkState state() const override { return state_; }
  const Error& error() const override { return *error_; }
  net::LinkLosses losses() const override {
    return {static_cast<std::uint64_t>(std::popcount(gone_)), sending_.resent()};
  }
  std::span<const net::RailTraffic> rails() const override;
  void close() override { fail_with("closed by this rank"); }

 private:
  VerbsLink(const net::LinkName& name, int own, int peer, Adapters& adapters);
  const Adapters::Keys* keys_of(net::MemoryKey key, std::span<const std::byte> bytes,
                                const char* what);
  Status take_up_answer(ByteSpan blob);

  std::optional<std::string> rung(Rail& rail, std::size_t pair, Ring ring) override;
  void sent(Rail&, std::uint16_t value) override { reported_ = true, sending_.sent(value); }
  void put(Rail&, std::uint16_t value) override { reported_ = true, putting_.put(value); }
  std::optional<std::string> receive_loss(const Rail& by, std::uint32_t index);

  bool follow_channel();
  bool follow_rails();
  void find_ways(std::uint32_t up);
  void log_loss();
  void report_opened() const;
  void report_lost(const Rail& rail) const;
  std::string loss_of_all() const;
  bool settle();
  void fail_with(const std::string& why, net::LinkState state = net::LinkState::kEnded);

  const net::LinkName name_;
  const int own_, peer_;  // ranks
  Adapters& adapters_;
  std::vector<std::unique_ptr<Rail>> rails_;
  mutable std::vector<net::RailTraffic> traffic_;  // by port; of rails_ at the last look
  std::vector<Way> ways_;                          // queue pairs of the rails that are up
  std::uint32_t up_ = 0;                           // a bit per rail that is up
  std::uint32_t gone_ = 0;                         // a bit per rail that is gone
  bool note_due_ = false;
  std::size_t notes_sent_ = 0;
  std::unique_ptr<net::SideChannel> channel_;
  net::LinkState state_ = net::LinkState::kOpening;
  bool answered_ = false;  // this end has both LinkEnds
  bool reported_ = false;  // a rail reported something since the last progress()
  std::string trouble_;    // fault of the peer; ends the link at the next progress()
  std::optional<Error> error_;
  SendSide sending_;
  ReceiveSide receiving_;
  PutSide putting_;
};

}  // namespace rondo::verbs
