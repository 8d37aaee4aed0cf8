// SPDX-License-Identifier: Apache-2.0
// SendSide, ReceiveSide: the two directions of a VerbsLink, for messages.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "transport/verbs/ibverbs/adapters.h"
#include "transport/verbs/ibverbs/rail.h"

namespace rondo::verbs {

// A queue pair of a rail that is up.
struct Way {
  Rail* rail;
  std::size_t pair;
};

// SendSide: the messages of one direction of a VerbsLink, at their sender.
//
// Guarantees: a message is sent when its credit has arrived. From 2 * kLeastPart bytes on it is
// split over the available Ways, in multiples of kStep. It is done when the peer has all of its
// parts. Parts that a lost rail carried are sent again over others, once the peer has reported
// which it has (verbs_link.h). Cost: stores and a doorbell per part; nothing is allocated.
//
//   const net::Request request = side.push(record, body, keys, tag);
//   side.send(ways);  // the rails call side.sent() for each part
class SendSide {
 public:
  static constexpr std::uint64_t kDepth = net::Link::kDepth;
  static constexpr std::size_t kLeastPart = 32 << 10;
  static constexpr std::size_t kStep = 128;

  bool full() const { return pushed_ - sent_ == kDepth; }
  std::uint64_t push(const CallRecord& record, std::span<const std::byte> body,
                     const Adapters::Keys& keys, std::uint32_t tag);
  bool is_sent(std::uint64_t number) const { return number < sent_; }
  // Sends the messages that can be sent now; true if there was one.
  bool send(std::span<const Way> ways);

  // Reports from the rails. receive_credits() and take_note() return the fault of invalid ones.
  void sent(std::uint16_t value);
  std::optional<std::string> receive_credits(const Rail& rail, std::uint32_t low);
  std::optional<std::string> take_note(const LossNote& note);
  std::uint64_t granted() const { return granted_; }
  std::uint64_t resent() const { return resent_; }  // parts sent again

 private:
  static constexpr std::uint8_t kNowhere = 0xff;
  struct Outgoing {
    CallRecord record{};
    std::span<const std::byte> body{};
    Adapters::Keys keys{};
    std::uint32_t tag = 0;
    std::uint32_t parts = 0;                      // number of parts, once it is sent
    std::size_t step = 0;                         // bytes of each part but the last
    std::uint32_t done = 0;                       // a bit per part
    std::array<std::uint8_t, kMaxPairs> rails{};  // the rail of each part, by index

    bool is_done() const { return done == (1u << parts) - 1; }
  };
  bool begin(std::span<const Way> ways);
  bool send_again(std::span<const Way> ways);
  void send_part(std::uint64_t number, std::uint32_t part, const Way& way);
  void count_sent();

  std::array<Outgoing, kDepth> outgoing_;
  std::array<Credit, kDepth> credits_;
  // Numbers of messages: sent_ <= written_ <= granted_, pushed_.
  std::uint64_t pushed_ = 0, granted_ = 0, written_ = 0, sent_ = 0;
  std::uint64_t resent_ = 0;  // parts
  std::size_t homeless_ = 0;  // number of parts to be sent again, because their rails are lost
};

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
  std::optional<std::string> arrived(Rail& rail, std::size_t pair, const Ring& ring);
  std::optional<std::string> take_note(const LossNote& note);
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
