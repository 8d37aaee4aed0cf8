// What two ends of a link write into each other's rings, and the 32 bits that ring with it.
//
// The receiver writes a Credit for each receive that is offered into the sender's ring: where the
// message may go. The sender writes the body there and a Header into the receiver's ring of that
// queue pair. An entry is read only when its number has rung, and is written again only after
// kDepth more messages, so nobody ever reads what is half there.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/net/net.h"

namespace rondo::verbs {

struct Credit {
  std::uint64_t address = 0;
  std::uint64_t room = 0;  // bytes
  std::uint32_t key = 0;
  std::uint32_t number = 0;  // of the message, its low 32 bits
};

struct Header {
  CallRecord record;
  std::uint64_t bytes = 0;  // of the body, of all parts
  std::uint32_t tag = 0;
  std::uint16_t number = 0;  // of the message, its low 16 bits
  std::uint16_t parts = 1;   // so many queue pairs carry it, each with a header
};
static_assert(sizeof(Credit) == 24 && sizeof(Header) == 32);

struct Rings {
  Credit credits[net::Link::kDepth];
  Header headers[][net::Link::kDepth];  // by queue pair

  static constexpr std::size_t bytes(std::size_t pairs) {
    return net::Link::kDepth * (sizeof(Credit) + pairs * sizeof(Header));
  }
  static constexpr std::uint64_t credit_at(std::uint64_t number) {
    return number % net::Link::kDepth * sizeof(Credit);
  }
  static constexpr std::uint64_t header_at(std::size_t pair, std::uint64_t number) {
    return bytes(pair) + number % net::Link::kDepth * sizeof(Header);
  }
};

// What rings: a kind, and the low 30 bits of a number.
struct Ring {
  enum class Kind : std::uint32_t {
    kReady = 0,    // the connector's queue pair takes writes
    kCredits = 1,  // so many credits have been written in all
    kMessage = 2,  // this pair's part of the message of that number has been written
  };
  Kind kind = Kind::kReady;
  std::uint32_t number = 0;

  static constexpr std::uint32_t kMask = (1u << 30) - 1;
  std::uint32_t immediate() const { return static_cast<std::uint32_t>(kind) << 30 | number; }
  static Ring of(std::uint32_t immediate) {
    return {static_cast<Kind>(immediate >> 30), immediate & kMask};
  }
};

// The number at or after `base`, at most `most` beyond it, whose low 30 bits are these.
inline std::optional<std::uint64_t> number_after(std::uint64_t base, std::uint32_t low,
                                                 std::uint64_t most) {
  const std::uint64_t ahead = (low - base) & Ring::kMask;
  return ahead <= most ? std::optional(base + ahead) : std::nullopt;
}

}  // namespace rondo::verbs
