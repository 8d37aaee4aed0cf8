// ReceiveSide: the messages of one direction of a VerbsLink, at their receiver.
//
// Guarantees: each receive writes one credit; credits go by one rail, in order. A message has
// arrived when all of its parts have, and messages arrive in order. After the loss of the credits'
// rail, the credits that the peer lacks go by another one (verbs_link.h). If the memory needs a
// flush, a message counts as arrived only after it; settle() continues a flush that takes time.
// Cost: a store and a doorbell for up to kMaxWrites credits, one flush for all messages that are
// present when it begins; nothing is allocated.
//
//   const std::uint64_t number = side.push(record, room, keys, key);
//   side.offer(ways, rails);  // side.arrived() is called for each part
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
  // Sends the credits of new receives.
  void offer(std::span<const Way> ways, const Rails& rails);

  // Reports from the rails. They return the fault of an invalid message or note.
  std::optional<std::string> arrived(const Rail& rail, std::size_t pair, const Ring& ring);
  std::optional<std::string> hear(const LossNote& note);
  // Fills in what this end has received.
  void fill(LossNote& note) const;
  // Continues a flush that is in progress.
  std::optional<std::string> settle() { return flush_due_ ? count_received() : std::nullopt; }
  bool flushes() const { return flush_due_; }

 private:
  struct Incoming {
    CallRecord* record = nullptr;
    std::span<std::byte> room{};
    Adapters::Keys keys{};
    net::MemoryKey flushed = 0;  // key of the memory, if it needs a flush; else 0
    std::uint32_t arrived = 0;   // a bit per part
    Header header{};

    bool is_whole() const { return arrived != 0 && arrived == (1u << header.parts) - 1; }
  };
  bool offer_some(Rail& rail, const Rails& rails);
  std::optional<std::string> count_received();
  Result<bool> is_visible(const Incoming& next);

  const Adapters& adapters_;
  std::array<Incoming, kDepth> incoming_;
  Rail* credit_rail_ = nullptr;  // null: none yet, or the peer has reported the last one's loss
  // Numbers of messages: received_ <= offered_ <= posted_.
  std::uint64_t posted_ = 0, offered_ = 0, received_ = 0;
  bool flush_due_ = false;  // the next message is whole and needs a flush
  std::optional<Adapters::Flush> flushing_;
  std::uint64_t flushed_ = 0, flushed_next_ = 0;  // first unflushed message: now; after flushing_
};

}  // namespace rondo::verbs
