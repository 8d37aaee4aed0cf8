// SPDX-License-Identifier: Apache-2.0
#include "bench/kinds.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "bench/element_types.h"

namespace rondo::bench {
namespace {

constexpr KindInfo kKinds[] = {
    // name, reduces, rooted, in place, sized
    {Kind::kAllReduce, "all_reduce", true, false, true, true},
    {Kind::kAllGather, "all_gather", false, false, true, true},
    {Kind::kReduceScatter, "reduce_scatter", true, false, true, true},
    {Kind::kBroadcast, "broadcast", false, true, true, true},
    {Kind::kReduce, "reduce", true, true, true, true},
    {Kind::kAllToAll, "alltoall", false, false, false, true},
    {Kind::kGather, "gather", false, true, true, true},
    {Kind::kScatter, "scatter", false, true, true, true},
    {Kind::kSendRecv, "sendrecv", false, false, false, true},
    {Kind::kHyperCube, "hypercube", false, false, true, true},
    {Kind::kBarrier, "barrier", false, false, false, false},
    {Kind::kAllToAllV, "alltoallv", false, false, false, true},
    {Kind::kAllGatherV, "all_gather_v", false, false, false, true},
    {Kind::kReduceScatterV, "reduce_scatter_v", true, false, false, true},
    {Kind::kGatherV, "gather_v", false, true, false, true},
    {Kind::kScatterV, "scatter_v", false, true, false, true},
};

std::string without_underscores(std::string_view text) {
  std::string kept;
  for (char c : text)
    if (c != '_') kept.push_back(c);
  return kept;
}

// Elements of the part at `distance` if `total` is divided among `ranks`: equal parts at spread 0,
// parts that grow with the distance at 1. Rounded down.
std::size_t uneven_part(std::size_t total, int ranks, int distance, double spread) {
  const double n = ranks;
  const double even = 1 / n;
  const double by_distance = ranks > 1 ? 2.0 * distance / (n * (n - 1)) : 1;
  return static_cast<std::size_t>(static_cast<double>(total) *
                                  ((1 - spread) * even + spread * by_distance));
}

std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> offsets(counts.size(), 0);
  for (std::size_t i = 1; i < counts.size(); ++i) offsets[i] = offsets[i - 1] + counts[i - 1];
  return offsets;
}

std::size_t sum(const std::vector<std::size_t>& counts) {
  std::size_t total = 0;
  for (std::size_t count : counts) total += count;
  return total;
}

std::size_t part_elements(std::size_t bytes, std::size_t element, int ranks) {
  const std::size_t part = bytes / static_cast<std::size_t>(ranks);
  return part >= 16 ? part / 16 * 16 / element : part / element;
}

void one_part_per_rank(const Case& wanted, std::size_t part, Layout& out) {
  const auto n = static_cast<std::size_t>(wanted.ranks);
  const auto self = static_cast<std::size_t>(wanted.rank);
  const auto root = static_cast<std::size_t>(wanted.root);
  const bool is_root = wanted.rank == wanted.root;
  out.count = part;
  out.in_place_count = n * part;
  const auto from_everybody = [&](std::size_t source_offset) {
    for (std::size_t r = 0; r < n; ++r)
      out.pieces.push_back({r * part, part, static_cast<int>(r), source_offset});
  };
  switch (wanted.kind) {
    case Kind::kAllGather:
    case Kind::kHyperCube:
      out.send_count = part, out.recv_count = n * part;
      out.in_place_send = self * part;
      from_everybody(0);
      break;
    case Kind::kReduceScatter:
      out.send_count = n * part, out.recv_count = part;
      out.in_place_recv = self * part;
      out.pieces.push_back({0, part, kEveryRank, self * part});
      break;
    case Kind::kAllToAll:
      out.send_count = out.recv_count = n * part;
      from_everybody(self * part);
      break;
    case Kind::kGather:
      out.send_count = part, out.recv_count = is_root ? n * part : 0;
      if (!is_root) out.in_place_count = part;
      if (is_root) out.in_place_send = root * part, from_everybody(0);
      break;
    default:  // kScatter
      out.send_count = is_root ? n * part : 0, out.recv_count = part;
      if (!is_root) out.in_place_count = part;
      if (is_root) out.in_place_recv = root * part;
      out.pieces.push_back({0, part, wanted.root, self * part});
      break;
  }
}

// Number of elements that `from` sends to `to`.
std::size_t between(const Case& wanted, std::size_t total, int from, int to) {
  const int n = wanted.ranks;
  const int distance = wanted.kind == Kind::kAllToAllV ? (to - from + n) % n
                       : wanted.kind == Kind::kGatherV || wanted.kind == Kind::kAllGatherV ? from
                                                                                           : to;
  return uneven_part(total, n, distance, wanted.spread);
}

void uneven_parts(const Case& wanted, std::size_t total, Layout& out) {
  const int n = wanted.ranks;
  const bool gathers = wanted.kind == Kind::kAllGatherV || wanted.kind == Kind::kGatherV;
  const bool rooted = wanted.kind == Kind::kGatherV || wanted.kind == Kind::kScatterV;
  const bool is_root = wanted.rank == wanted.root;
  std::size_t heaviest = 0;  // maximum elements that a rank sends
  for (int r = 0; r < n; ++r) {
    out.send_counts.push_back(between(wanted, total, wanted.rank, r));
    out.recv_counts.push_back(between(wanted, total, r, wanted.rank));
    std::size_t sent = 0;
    for (int peer = 0; peer < n; ++peer) sent += between(wanted, total, r, peer);
    heaviest = std::max(heaviest, sent);
  }
  if (wanted.kind == Kind::kReduceScatterV) out.recv_counts = out.send_counts;
  out.send_offsets = offsets_of(out.send_counts);
  out.recv_offsets = offsets_of(out.recv_counts);
  const auto self = static_cast<std::size_t>(wanted.rank);
  out.count = sum(gathers ? out.recv_counts : out.send_counts);
  switch (wanted.kind) {
    case Kind::kAllToAllV:
      out.send_count = sum(out.send_counts), out.recv_count = sum(out.recv_counts);
      for (int r = 0; r < n; ++r) {
        std::size_t offset = 0;  // of the part for this rank in rank r's send buffer
        for (int to = 0; to < wanted.rank; ++to) offset += between(wanted, total, r, to);
        out.pieces.push_back({out.recv_offsets[static_cast<std::size_t>(r)],
                              out.recv_counts[static_cast<std::size_t>(r)], r, offset});
      }
      break;
    case Kind::kReduceScatterV:
      out.send_count = sum(out.send_counts), out.recv_count = out.send_counts[self];
      out.pieces.push_back({0, out.recv_count, kEveryRank, out.send_offsets[self]});
      break;
    case Kind::kScatterV:
      out.send_count = is_root ? sum(out.send_counts) : 0, out.recv_count = out.send_counts[self];
      out.pieces.push_back({0, out.recv_count, wanted.root, out.send_offsets[self]});
      break;
    default:  // gathers
      out.send_count = out.recv_counts[self];
      out.recv_count = !rooted || is_root ? sum(out.recv_counts) : 0;
      if (out.recv_count > 0 || !rooted || is_root)
        for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r)
          out.pieces.push_back({out.recv_offsets[r], out.recv_counts[r], static_cast<int>(r), 0});
      break;
  }
  if (wanted.kind == Kind::kAllToAllV) out.count = heaviest;
}

}  // namespace

std::span<const KindInfo> all_kinds() { return kKinds; }

const KindInfo& info(Kind kind) {
  for (const KindInfo& row : kKinds)
    if (row.kind == kind) return row;
  return kKinds[0];
}

std::optional<Kind> kind_by_name(std::string_view name) {
  for (const KindInfo& row : kKinds)
    if (without_underscores(row.name) == without_underscores(name)) return row.kind;
  return std::nullopt;
}

std::vector<std::string> names_of_kinds() {
  std::vector<std::string> names;
  for (const KindInfo& row : kKinds) names.emplace_back(row.name);
  return names;
}

Layout layout_of(const Case& wanted, std::size_t bytes) {
  const std::size_t element = info(wanted.type).size;
  const double n = wanted.ranks;
  Layout out;
  switch (wanted.kind) {
    case Kind::kBarrier:
      return out;
    case Kind::kAllReduce:
    case Kind::kBroadcast:
    case Kind::kReduce:
    case Kind::kSendRecv: {
      const bool is_root = wanted.rank == wanted.root;
      out.count = out.in_place_count = bytes / element;
      out.send_count = wanted.kind == Kind::kBroadcast && !is_root ? 0 : out.count;
      out.recv_count = wanted.kind == Kind::kReduce && !is_root ? 0 : out.count;
      int source = kEveryRank;
      if (wanted.kind == Kind::kBroadcast) source = wanted.root;
      if (wanted.kind == Kind::kSendRecv) source = (wanted.rank + wanted.ranks - 1) % wanted.ranks;
      if (out.recv_count > 0) out.pieces.push_back({0, out.count, source, 0});
      out.bytes = out.count * element;
      out.moved_bytes = static_cast<double>(out.bytes);
      out.bus_factor = wanted.kind == Kind::kAllReduce ? 2 * (n - 1) / n : 1;
      return out;
    }
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
    case Kind::kGather:
    case Kind::kScatter:
    case Kind::kHyperCube:
      one_part_per_rank(wanted, part_elements(bytes, element, wanted.ranks), out);
      out.bytes = out.count * static_cast<std::size_t>(wanted.ranks) * element;
      out.moved_bytes = static_cast<double>(out.bytes);
      out.bus_factor = (n - 1) / n;
      if (wanted.kind == Kind::kHyperCube) {
        out.moved_bytes = static_cast<double>(out.count * element) * (n - 1);
        out.bus_factor = 1;
      }
      return out;
    default:
      uneven_parts(wanted, bytes / element, out);
      out.bytes = out.count * element;
      out.moved_bytes = static_cast<double>(out.bytes);
      out.bus_factor = (n - 1) / n;
      return out;
  }
}

}  // namespace rondo::bench
