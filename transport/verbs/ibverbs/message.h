// SPDX-License-Identifier: Apache-2.0
// The data that the two ends of a link write into each other's memory, and the 32-bit immediate
// that notifies ("rings") the other end.
//
// For each receive, the receiver writes a Credit into the sender's ring: the address for the
// message. The sender writes the body there and, with each part of it, a Header into the receiver's
// ring of that queue pair. An entry is read only after its number has rung, and the next message
// that uses it comes kDepth messages later, so no end reads a half-written entry. Two parts of one
// message that go by one queue pair write the same entry, with equal headers.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/net/net.h"
#include "transport/verbs/endpoint.h"

namespace rondo::verbs {

struct Credit {
  std::uint64_t address = 0;
  std::uint64_t room = 0;              // bytes
  std::uint32_t keys[kMaxRails] = {};  // index: rail of the link
  std::uint32_t number = 0;            // low 32 bits of the message's number
};

struct Header {
  CallRecord record;
  std::uint64_t bytes = 0;  // size of the body, all parts
  std::uint32_t tag = 0;
  std::uint16_t number = 0;  // low 16 bits of the message's number
  std::uint16_t parts = 1;   // number of its parts, each with this header
};
static_assert(sizeof(Credit) == 40 && sizeof(Header) == 32);

// Sent by an end that has lost rails (verbs_link.h): totals of what it has received.
struct LossNote {
  std::uint32_t lost = 0;                       // a bit per rail lost at this end
  std::uint32_t reserved = 0;                   // zero
  std::uint64_t received = 0;                   // number of complete messages
  std::uint64_t granted = 0;                    // number of credits received
  std::uint64_t puts = 0;                       // number of puts that have taken effect
  std::uint16_t parts[net::Link::kDepth] = {};  // next messages: a bit per received part
};

// Memory of one rail that the peer writes, and the notes that this end sends from.
struct Rings {
  Credit credits[net::Link::kDepth];
  LossNote notes[kMaxRails];  // each written once
  LossNote own_notes[kMaxRails];
  alignas(64) std::uint64_t puts;  // number of the peer's puts in effect, by this rail or before
  alignas(64) Header headers[][net::Link::kDepth];  // one per queue pair of the rail

  static constexpr std::size_t bytes(std::size_t pairs) {
    return puts_at() + 64 + pairs * net::Link::kDepth * sizeof(Header);
  }
  static constexpr std::uint64_t credit_at(std::uint64_t number) {
    return number % net::Link::kDepth * sizeof(Credit);
  }
  static constexpr std::uint64_t note_at(std::size_t index) {
    return net::Link::kDepth * sizeof(Credit) + index * sizeof(LossNote);
  }
  static constexpr std::uint64_t own_note_at(std::size_t index) {
    return note_at(kMaxRails + index);
  }
  static constexpr std::uint64_t puts_at() { return (own_note_at(kMaxRails) + 63) / 64 * 64; }
  static constexpr std::uint64_t header_at(std::size_t pair, std::uint64_t number) {
    return bytes(pair) + number % net::Link::kDepth * sizeof(Header);
  }
};

// The immediate of a write: a kind, a part, and the low bits of a number.
struct Ring {
  enum class Kind : std::uint32_t {
    kReady = 0,    // the connector's queue pair accepts writes
    kCredits = 1,  // total number of credits written
    kMessage = 2,  // this part of the message of that number has been written
    kLoss = 3,     // the note of that number has been written
  };
  Kind kind = Kind::kReady;
  std::uint32_t number = 0;
  std::uint32_t part = 0;

  static constexpr std::uint32_t kBits = 26;
  static constexpr std::uint32_t kMask = (1u << kBits) - 1;
  std::uint32_t immediate() const {
    return static_cast<std::uint32_t>(kind) << 30 | part << kBits | (number & kMask);
  }
  static Ring of(std::uint32_t immediate) {
    return {static_cast<Kind>(immediate >> 30), immediate & kMask,
            immediate >> kBits & static_cast<std::uint32_t>(kMaxPairs - 1)};
  }
};
static_assert(kMaxPairs == 1u << (30 - Ring::kBits));

// The number in base .. base + most with these low bits; nullopt: none.
inline std::optional<std::uint64_t> number_after(std::uint64_t base, std::uint32_t low,
                                                 std::uint64_t maximum) {
  const std::uint64_t ahead = (low - base) & Ring::kMask;
  return ahead <= maximum ? std::optional(base + ahead) : std::nullopt;
}

}  // namespace rondo::verbs
