// SPDX-License-Identifier: Apache-2.0
// The collectives of the benchmark: how sizes become counts and buffers, what each rank's result
// must contain, and how bandwidth is computed.
//
// A Layout has all that calls, checks and reports need. layout_of() is a pure function: each rank
// can compute the Layout of every rank.
//
//   Layout mine = layout_of({Kind::kAllGather, ncclFloat, rank, ranks}, 4096);
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "api/rondo.h"

namespace rondo::bench {

enum class Kind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSendRecv,
  kHyperCube,
  kBarrier,
  kAllToAllV,
  kAllGatherV,
  kReduceScatterV,
  kGatherV,
  kScatterV,
};

struct KindInfo {
  Kind kind;
  std::string_view name;  // "all_reduce"; the program is all_reduce_perf
  bool reduces;           // takes an operation
  bool rooted;
  bool in_place;
  bool sized;  // false: barrier
};

std::span<const KindInfo> all_kinds();
const KindInfo& info(Kind kind);
std::optional<Kind> kind_by_name(std::string_view name);  // also without underscores
std::vector<std::string> names_of_kinds();

inline constexpr int kEveryRank = -1;

// `count` elements of the result: their offset, and the send elements that they must equal.
struct Piece {
  std::size_t recv_offset;
  std::size_t count;
  int source;  // kEveryRank: the reduction over all ranks
  std::size_t source_offset;
};

struct Case {
  Kind kind;
  ncclDataType_t type;
  int rank;
  int ranks;
  int root = 0;
  double spread = 1;  // v-collectives: 0 gives equal parts, 1 parts that grow with the distance
};

// Counts and offsets of one rank, in elements.
struct Layout {
  std::size_t count = 0;       // the API's argument; v: sum of the parts (kAllToAllV: largest sum)
  std::size_t send_count = 0;  // length of the send buffer
  std::size_t recv_count = 0;
  std::size_t in_place_count = 0;  // in place: length of the buffer, and offsets in it
  std::size_t in_place_send = 0;
  std::size_t in_place_recv = 0;
  std::vector<Piece> pieces;  // of recv; elements between them must not change
  std::vector<std::size_t> send_counts, send_offsets, recv_counts, recv_offsets;  // v only
  std::size_t bytes = 0;   // the table's size column
  double moved_bytes = 0;  // algorithm bandwidth = moved_bytes / time
  double bus_factor = 0;   // bus bandwidth = algorithm bandwidth * bus_factor
};

// The Layout for a requested size. Collectives with one part per rank round each part down to a
// multiple of 16 bytes, or to whole elements if it is shorter; Layout::bytes is the rounded size.
Layout layout_of(const Case& wanted, std::size_t bytes);

}  // namespace rondo::bench
