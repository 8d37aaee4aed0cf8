// The collectives that the benchmark knows: how sizes become counts and buffers, what each rank's
// result consists of, and how bandwidth is computed.
//
// A Layout is all that calling, checking and reporting need. It is a pure function of its
// arguments; every rank can compute every other rank's.
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
  bool reduces;           // has an operation
  bool rooted;
  bool in_place;
  bool sized;  // false: barrier
};

std::span<const KindInfo> all_kinds();
const KindInfo& info(Kind kind);
std::optional<Kind> kind_by_name(std::string_view name);  // also without underscores

inline constexpr int kEveryRank = -1;

// `count` elements of the result: where they lie and whose send elements they are.
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

// In elements; of one rank.
struct Layout {
  std::size_t count = 0;       // the API's argument; v-collectives: the elements of all parts
  std::size_t send_count = 0;  // the send buffer's length
  std::size_t recv_count = 0;
  std::size_t in_place_count = 0;  // the length of the one buffer, and where in it they start:
  std::size_t in_place_send = 0;
  std::size_t in_place_recv = 0;
  std::vector<Piece> pieces;  // of recv; what lies between them must stay untouched
  std::vector<std::size_t> send_counts, send_offsets, recv_counts, recv_offsets;  // v only
  std::size_t bytes = 0;   // what the table calls size
  double moved_bytes = 0;  // algorithm bandwidth = moved_bytes / time
  double bus_factor = 0;   // bus bandwidth = algorithm bandwidth * bus_factor
};

// What `bytes` asks for. Collectives with a part per rank round it down to whole parts of 16 bytes
// where it is that long, else to whole elements; `bytes` of the result says what it became.
Layout layout_of(const Case& wanted, std::size_t bytes);

}  // namespace rondo::bench
