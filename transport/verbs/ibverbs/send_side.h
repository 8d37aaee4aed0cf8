// SendSide: the messages of one direction of a VerbsLink, at their sender.
//
// Guarantees: a message is sent when its credit has arrived. From 2 * kLeastPart bytes on it is
// split over the available Ways, in multiples of kStep. It is done when the peer has all of its
// parts. Parts that a lost rail carried are sent again over others, once the peer has reported
// which it has (verbs_link.h). Cost: stores and a doorbell per part; nothing is allocated.
//
//   const net::Request request = side.push(record, body, keys, tag);
//   side.send(ways);  // the rails call side.sent() for each part
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

  // Reports from the rails. hear*() return the fault of invalid credits or notes.
  void sent(std::uint16_t value);
  std::optional<std::string> hear_credits(const Rail& rail, std::uint32_t low);
  std::optional<std::string> hear(const LossNote& note);
  std::uint64_t granted() const { return granted_; }

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
  std::size_t homeless_ = 0;  // number of parts to be sent again, because their rails are lost
};

}  // namespace rondo::verbs
