// SendSide: the messages of one direction of a VerbsLink, at their sender.
//
// Guarantees: a message leaves when its credit is there, split over the ways that there are from
// 2 * kLeastPart on, by multiples of kStep; it is done when the peer has all of its parts. What a
// lost rail carried goes again over others, once the peer has said what it has: verbs_link.h. Cost:
// stores and a doorbell a part; nothing is allocated.
//
//   const net::Request request = side.push(record, body, keys, tag);
//   side.send(ways);  // then side.sent() tells of each part, by its rail
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
  // Sends what may go now; true if something went.
  bool send(std::span<const Way> ways);

  // What rails tell; a sentence: the peer may not have said so.
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
    std::uint32_t parts = 0;                      // once it has left
    std::size_t step = 0;                         // bytes of each but the last
    std::uint32_t done = 0;                       // a bit for each part
    std::array<std::uint8_t, kMaxPairs> rails{};  // that carry the parts

    bool is_done() const { return done == (1u << parts) - 1; }
  };
  bool begin(std::span<const Way> ways);
  bool send_again(std::span<const Way> ways);
  void send_part(std::uint64_t number, std::uint32_t part, const Way& way);
  void count_sent();

  std::array<Outgoing, kDepth> outgoing_;
  std::array<Credit, kDepth> credits_;
  // Of messages, from 0: sent_ <= written_ <= granted_, pushed_.
  std::uint64_t pushed_ = 0, granted_ = 0, written_ = 0, sent_ = 0;
  std::size_t homeless_ = 0;  // parts whose rails are lost, to be sent again
};

}  // namespace rondo::verbs
