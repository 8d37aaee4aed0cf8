// ReceiveSide: the messages of one direction of a VerbsLink, at their receiver.
//
// Guarantees: a credit is written for each receive, by one rail, in order; a message is there when
// all of its parts are, and messages are there in order. After the loss of the rail that carried
// credits, those that the peer says it lacks go by another: verbs_link.h. What has come into memory
// that needs it is flushed before it counts as there; a flush that takes a while goes on in
// settle(). Cost: a store and a doorbell for up to kMaxWrites credits, a flush for what is there
// at once; nothing is allocated.
//
//   const std::uint64_t number = side.push(record, room, keys, key);
//   side.offer(ways, rails);  // then side.arrived() of each part
#pragma once

#include "transport/verbs/ibverbs/send_side.h"

namespace rondo::verbs {

class ReceiveSide {
 public:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;
  using Rails = std::vector<std::unique_ptr<Rail>>;

  explicit ReceiveSide(const Adapters& adapters) : adapters_(adapters) {}
  bool full() const { return posted_ - received_ == kDepth; }
  std::uint64_t push(CallRecord& record, std::span<std::byte> room, const Adapters::Keys& keys,
                     net::MemoryKey key);
  net::Completion test(std::uint64_t number) const;
  // Credits for receives that were posted since.
  void offer(std::span<const Way> ways, const Rails& rails);

  // What rails tell; a sentence: the peer may not have said so.
  std::optional<std::string> arrived(const Rail& rail, std::size_t pair, const Ring& ring);
  std::optional<std::string> hear(const LossNote& note);
  // What this end has.
  void fill(LossNote& note) const;
  // Goes on with a flush that is under way.
  std::optional<std::string> settle() { return flush_due_ ? count_received() : std::nullopt; }
  bool flushes() const { return flush_due_; }

 private:
  struct Incoming {
    CallRecord* record = nullptr;
    std::span<std::byte> room{};
    Adapters::Keys keys{};
    net::MemoryKey flushed = 0;  // the memory, if it is flushed; else 0
    std::uint32_t arrived = 0;   // a bit for each part
    Header header{};

    bool is_whole() const { return arrived != 0 && arrived == (1u << header.parts) - 1; }
  };
  bool offer_some(Rail& rail, const Rails& rails);
  std::optional<std::string> count_received();
  Result<bool> is_visible(const Incoming& next);

  const Adapters& adapters_;
  std::array<Incoming, kDepth> incoming_;
  Rail* credit_rail_ = nullptr;  // none yet, or the peer has said what came by the last one
  // Of messages, from 0: received_ <= offered_ <= posted_.
  std::uint64_t posted_ = 0, offered_ = 0, received_ = 0;
  bool flush_due_ = false;  // the next message is whole, and not flushed yet
  std::optional<Adapters::Flush> flushing_;
  std::uint64_t flushed_ = 0, flushed_next_ = 0;  // messages before: flushed; by flushing_, too
};

}  // namespace rondo::verbs
