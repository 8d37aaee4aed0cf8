// VerbsLink: a net::Link of one or more rails, each of one or more queue pairs.
//
// irecv() writes where the message may go into a ring at the sender: that is the credit. isend()
// answers by writes to there, split over rails and queue pairs where that is worth it, and with
// each part a header that rings the receiver. Nothing relies on order between queue pairs: a
// message is there when all of its parts are. The side channel carries what the ends are, and the
// end.
//
// A rail that is lost (Rail says when) is lost at both ends, and no write is ever in doubt:
//   1. The end that notices the loss stops its queue pairs there and lets them drain. After that no
//   write of the peer over that rail takes effect here, however late or often it arrives. Every
//   write that was acknowledged to the peer has completed here, too, because an acknowledged write
//   completes at its receiver before the flushed ones.
//   2. Only then it sends a LossNote over a rail that is up: which rails are lost, which messages
//   and parts of messages it has, how many credits. The peer then drops those rails, too, if it has
//   not yet, and sends a note of its own by the same steps.
//   3. The end that receives a note knows that nothing it sent is in flight any more on the rails
//   that the note names. So it sends again, over other rails, the parts that went by one of them
//   and did not arrive, and the credits from the first missing one on. Each direction by itself.
// A slot is offered anew only after its message is whole, and no part of a whole message is ever
// sent again: either the note names it, or it went by a rail that the note does not name, where it
// is sent once. Parts in transit on other rails are left alone. Where a note is lost with its rail,
// the loss of that rail makes a new one, of all that is lost so far; what it repeats is of parts
// that have meanwhile been given to another rail, and is passed over. A device that does not even
// flush leaves open what it has told the peer: then the link ends instead.
//
// Puts go by one queue pair, in order, and each writes last how many there have been. So of two
// puts in a row the first has taken effect where the second has, which no acknowledgement says of
// two ports: those tell that a port has taken a write, and not that the memory behind it has it.
// When that rail is lost the note says how many have taken effect, and the others, in order, go by
// another. So what a put has written is never written again after its word; but a put waits for the
// peer's program then, which has to hear of the loss and to say its note.
//
// Guarantees: besides those of net::Link, a link that is over has no queue pair any more, so that
// nobody writes into memory that a caller takes back. Without a rail left it ends, with an error
// that names ranks, hosts, ports, addresses, queue pairs and what the device said. Cost: isend and
// irecv of a link that is open are stores and a doorbell; rings take 6 KiB a rail and queue pair.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "transport/net/net.h"
#include "transport/streams/side_channel.h"
#include "transport/verbs/ibverbs/put_side.h"
#include "transport/verbs/ibverbs/receive_side.h"

namespace rondo::verbs {

class VerbsLink final : public net::Link, private RailOwner {
 public:
  // To a peer: `connect` takes the blob of this side. pairs: of each rail, at most.
  using Connect = std::function<Result<std::unique_ptr<net::SideChannel>>(ByteSpan)>;
  static Result<std::unique_ptr<VerbsLink>> connect(const net::LinkName& name, Adapters& adapters,
                                                    int pairs, const Connect& connect);
  // From one: its blob is there.
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
  void close() override { fail_with("closed by this rank"); }

 private:
  VerbsLink(const net::LinkName& name, int own, int peer, Adapters& adapters)
      : name_(name), own_(own), peer_(peer), adapters_(adapters), receiving_(adapters) {}
  const Adapters::Keys* keys_of(net::MemoryKey key, std::span<const std::byte> bytes,
                                const char* what);
  Status take_up_answer(ByteSpan blob);

  std::optional<std::string> rung(Rail& rail, std::size_t pair, Ring ring) override;
  void sent(Rail&, std::uint16_t value) override { told_ = true, sending_.sent(value); }
  void put(Rail&, std::uint16_t value) override { told_ = true, putting_.put(value); }
  std::optional<std::string> hear_loss(const Rail& by, std::uint32_t index);

  bool follow_channel();
  bool follow_rails();
  void find_ways(std::uint32_t up);
  void say_loss();
  void tell_opened() const;
  void tell_lost(const Rail& rail) const;
  std::string loss_of_all() const;
  bool settle();
  void fail_with(const std::string& why, net::LinkState state = net::LinkState::kEnded);

  const net::LinkName name_;
  const int own_, peer_;  // ranks
  Adapters& adapters_;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::vector<Way> ways_;   // of the rails that are up
  std::uint32_t up_ = 0;    // a bit for each of them
  std::uint32_t gone_ = 0;  // a bit for each rail that has gone
  bool note_due_ = false;
  std::size_t notes_said_ = 0;
  std::unique_ptr<net::SideChannel> channel_;
  net::LinkState state_ = net::LinkState::kOpening;
  bool answered_ = false;  // both ends have said what they are
  bool told_ = false;      // of something since the last progress()
  std::string trouble_;    // what the peer may not do; the link ends by it at the next progress()
  std::optional<Error> error_;
  SendSide sending_;
  ReceiveSide receiving_;
  PutSide putting_;
};

}  // namespace rondo::verbs
