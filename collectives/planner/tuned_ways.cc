// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/tuned_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>

#include "base/printable.h"
#include "collectives/planner/explain.h"
#include "collectives/planner/protocol_filter.h"

namespace rondo::gpu {
namespace {

bool counts_blocks(Collective which) {
  return which == Collective::kAllGather || which == Collective::kReduceScatter;
}

bool has_ways(Collective which) {
  return which >= Collective::kAllReduce && which <= Collective::kReduceScatter;
}

}  // namespace

std::string to_string(const TunedWay& way) {
  const std::string what = way.chosen
                               ? fmt::format("{} by {}", name(way.algorithm), name(way.protocol))
                               : std::string("Rondo's own choice");
  return way.max_channels == 0
             ? what
             : fmt::format("{} on at most {}", what, counted(way.max_channels, "channel"));
}

std::uint64_t TunedWays::bytes_of(const CallRecord& record, int ranks) {
  assert(ranks > 0);
  const std::uint64_t bytes = record.count * size_of(record.type);
  return counts_blocks(record.collective) ? bytes * static_cast<std::uint64_t>(ranks) : bytes;
}

CallRecord TunedWays::record_at(Collective which, int size, int ranks) {
  assert(size >= 0 && size < kSizes && ranks > 0);
  CallRecord record;
  record.collective = which;
  record.type = DataType::kFloat32;
  record.op = RedOp::kSum;
  record.root = is_rooted(which) ? 0 : -1;
  const std::uint64_t elements = bytes_at(size) / size_of(record.type);
  const std::uint64_t blocks = counts_blocks(which) ? static_cast<std::uint64_t>(ranks) : 1;
  record.count = std::max<std::uint64_t>(elements / blocks, 1);
  return record;
}

TunedWay TunedWays::of(const CallRecord& record, int ranks) const {
  if (!has_ways(record.collective) || record.count == 0) return {};
  const std::uint64_t bytes = std::max<std::uint64_t>(bytes_of(record, ranks), bytes_at(0));
  const int size = std::bit_width(bytes - 1) - std::bit_width(bytes_at(0) - 1);
  return at(record.collective, std::min(size, kSizes - 1));
}

Bytes TunedWays::encode() const {
  ByteWriter out;
  for (const auto& of_collective : ways_)
    for (const TunedWay& way : of_collective) {
      out.put(static_cast<std::uint8_t>(way.chosen));
      out.put(way.algorithm);
      out.put(way.protocol);
      out.put(way.max_channels);
    }
  return out.take();
}

std::optional<TunedWays> TunedWays::decode(ByteSpan blob) {
  ByteReader in(blob);
  TunedWays read;
  for (auto& of_collective : read.ways_)
    for (TunedWay& way : of_collective) {
      const auto chosen = in.get<std::uint8_t>();
      way.chosen = chosen == 1;
      way.algorithm = in.get<Algorithm>();
      way.protocol = in.get<cuda::Protocol>();
      way.max_channels = in.get<std::uint8_t>();
      const bool known = way.algorithm == Algorithm::kRing || way.algorithm == Algorithm::kTree;
      if (chosen > 1 || !known || static_cast<int>(way.protocol) >= cuda::kProtocols)
        return std::nullopt;
    }
  return in.finished() ? std::optional(read) : std::nullopt;
}

// FNV-1a.
std::uint64_t TunedWays::digest() const {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const std::byte byte : encode())
    value = (value ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  return value;
}

std::string TunedWays::difference(const TunedWays& other) const {
  for (int c = 0; c < kListedFunctions; ++c) {
    const auto which = static_cast<Collective>(c + 1);
    for (int size = 0; size < kSizes; ++size)
      if (!(at(which, size) == other.at(which, size)))
        return fmt::format("{} for {} of {}, not {}", to_string(at(which, size)), name(which),
                           bytes_text(bytes_at(size)), to_string(other.at(which, size)));
  }
  return {};
}

}  // namespace rondo::gpu
