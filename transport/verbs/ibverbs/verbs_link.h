// VerbsLink: a net::Link of one or more queue pairs.
//
// irecv() writes where the message may go into a ring at the sender: that is the credit. isend()
// answers by writes to there, split over the queue pairs where that is worth it, and on each of
// those a header that rings the receiver. Nothing relies on order between queue pairs: a message is
// there when all of its headers are. The side channel carries what the ends are, and the end.
// Guarantees: besides those of net::Link, a link that is over has no queue pair any more, so that
// nobody writes into memory that a caller takes back. Cost: isend and irecv of a link that is open
// are stores and a doorbell; the ring at the receiver takes 2 KiB a queue pair.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "transport/net/net.h"
#include "transport/streams/side_channel.h"
#include "transport/verbs/ibverbs/adapter.h"
#include "transport/verbs/ibverbs/message.h"
#include "transport/verbs/ibverbs/queue_pair.h"

namespace rondo::verbs {

class VerbsLink final : public net::Link, private PairOwner {
 public:
  // To a peer: `connect` takes the blob of this side.
  using Connect = std::function<Result<std::unique_ptr<net::SideChannel>>(ByteSpan)>;
  static Result<std::unique_ptr<VerbsLink>> connect(const net::LinkName& name, Adapter& adapter,
                                                    int pairs, const Connect& connect);
  // From one: its blob is there.
  static Result<std::unique_ptr<VerbsLink>> accept(Adapter& adapter,
                                                   std::unique_ptr<net::SideChannel> channel);
  ~VerbsLink() override;

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
  struct Pair {
    std::unique_ptr<QueuePair> pair;
    std::uint32_t slot = 0;
    int posted = 0;  // sends that have not completed
  };
  struct Outgoing {
    CallRecord record{};
    std::span<const std::byte> body{};
    std::uint32_t local_key = 0;
    std::uint32_t tag = 0;
    int unfinished = 0;  // parts
  };
  struct Incoming {
    CallRecord* record = nullptr;
    std::span<std::byte> room{};
    std::uint32_t remote_key = 0;
    int arrived = 0;  // parts
    Header header{};
  };

  VerbsLink(const net::LinkName& name, int peer, Adapter& adapter)
      : name_(name), peer_(peer), adapter_(adapter) {}
  Done make_pairs(std::size_t count);
  Done connect_pairs(ByteSpan blob);
  LinkEnd own_end() const;
  void say_ready();

  void completed(int pair, const Posted& posted, const ibv_wc& completion) override;
  std::optional<std::string> rung(int pair, Ring ring);
  std::optional<std::string> arrived(int pair, std::uint64_t number);

  bool follow_channel();
  bool offer();
  bool send();
  bool send_next();
  bool settle();
  Done post(Pair& by, std::span<Write> writes, Posted::Kind kind, std::uint64_t value);
  void fail_with(const std::string& why, net::LinkState state = net::LinkState::kEnded);
  void drop_pairs();

  const net::LinkName name_;
  const int peer_;
  Adapter& adapter_;
  std::vector<Pair> pairs_;
  Slice rings_;  // that the peer writes
  LinkEnd theirs_;
  std::unique_ptr<net::SideChannel> channel_;
  net::LinkState state_ = net::LinkState::kOpening;
  std::size_t ready_ = 0;  // queue pairs of the connector that take writes
  bool told_ = false;      // of something since the last progress()
  std::string trouble_;    // what a completion told; the link ends by it at the next progress()
  std::optional<Error> error_;
  std::array<Outgoing, kDepth> outgoing_;
  std::array<Incoming, kDepth> incoming_;
  std::uint64_t pushed_ = 0, granted_ = 0, written_ = 0, sent_ = 0;
  std::uint64_t posted_ = 0, offered_ = 0, received_ = 0;
};

}  // namespace rondo::verbs
