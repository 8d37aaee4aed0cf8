// SPDX-License-Identifier: Apache-2.0
// The bootstrap messages and their encoding. All bytes come from the network: decoding checks every
// bound and returns nullopt for bytes that the encoder would not write.
//
//   in the handshake's Answer: Join (rank, size, listening address)
//   then, as frames: Roll, Table, Connected, Ended, Error (at the rendezvous); Gather, Result,
//   Error (in the tree)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/socket/address.h"

namespace rondo::bootstrap {

enum Message : std::uint16_t {
  kTable = 4,
  kConnected = 5,
  kError = 6,
  kGather = 7,
  kResult = 8,
  kRoll = 9,
  kEnded = 10,
};

inline constexpr std::size_t kMaxErrorText = 4096;
inline constexpr int kMaxRanks = 1 << 20;
inline constexpr std::size_t kMaxClaim = 200;  // bytes; a handshake carries at most 512

// The address at which a rank waits for its children in the tree.
struct Endpoint {
  std::uint16_t port = 0;  // 0: no children
  std::vector<net::SocketAddress> addresses;
};

// Of survivors' numbers in their parent; never 0.
std::uint64_t digest_of(std::span<const int> members);

struct Join {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t timeout_ns = 0;  // remaining wait time of this rank
  Endpoint place;
  // Of survivors (session.h); else empty.
  std::uint64_t members = 0;  // digest_of()
  std::string claim;
  Bytes encode() const;
  static std::optional<Join> decode(ByteSpan payload);
};

struct Table {
  Endpoint parent;  // port 0 at rank 0
  Bytes encode() const;
  static std::optional<Table> decode(ByteSpan payload);
};

// Which ranks have joined so far, once no other has joined for a while.
struct Roll {
  static constexpr std::size_t kMaxAbsent = 16;  // the first ones; others are only counted
  std::int32_t joined = 0;
  std::vector<int> absent;
  Bytes encode() const;
  // All ranks in the result are in 0..size-1.
  static std::optional<Roll> decode(ByteSpan payload, int size);
};

// Before the Error of a meeting of survivors: one of them, by its number in the parent, has ended.
struct Ended {
  std::int32_t member = 0;
  Bytes encode() const;
  static std::optional<Ended> decode(ByteSpan payload);
};

Bytes encode_error(const Error& error);
std::optional<Error> decode_error(ByteSpan payload);

// The content of Gather and Result: any number of (rank, bytes).
struct Entry {
  int rank = 0;
  ByteSpan bytes;  // points into the payload
};
void append_entry(ByteWriter& out, int rank, ByteSpan bytes);
std::optional<std::vector<Entry>> decode_entries(ByteSpan payload, int size);

// Tree: who is connected with whom in a session. A pure function of a rank's number.
//
// The tree over the ranks of a session: rank r's children are 8r + 1 ... 8r + 8. Two levels reach
// 73 ranks; the work of the busiest rank stays constant.
inline constexpr int kFanout = 8;

struct Tree {
  int rank = 0;
  int size = 1;

  bool root() const { return rank == 0; }
  int parent() const { return (rank - 1) / kFanout; }
  long first_child() const { return static_cast<long>(rank) * kFanout + 1; }
  int children() const {
    const long left = size - first_child();
    return left < 0 ? 0 : left > kFanout ? kFanout : static_cast<int>(left);
  }
  // Number of levels below this rank.
  int height() const {
    int levels = 0;
    for (long first = first_child(); first < size; first = first * kFanout + 1) ++levels;
    return levels;
  }
  int depth() const {
    int levels = 0;
    for (int at = rank; at > 0; at = (at - 1) / kFanout) ++levels;
    return levels;
  }
};

}  // namespace rondo::bootstrap
