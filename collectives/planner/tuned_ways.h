// SPDX-License-Identifier: Apache-2.0
// TunedWays: the rings and trees that a tuner plugin prefers, on a grid of collectives and sizes.
//
// All ranks of a communicator have the same preferences, compared at init
// (collectives/gpu/rank/binding.cc), so plans remain pure functions of what ranks agreed on. The
// plugin is queried once, only for the grid; a call between two sizes uses the answer for the
// larger one. Cost: a few hundred bytes; one look-up per plan.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "collectives/planner/function_lists.h"
#include "collectives/planner/strategy.h"
#include "kernels/algorithms/table.h"
#include "kernels/cuda/connected_args.h"

namespace rondo::gpu {

// Empty: the planner decides.
struct TunedWay {
  bool chosen = false;  // the plugin chose the next two fields
  Algorithm algorithm = Algorithm::kRing;
  cuda::Protocol protocol = cuda::Protocol::kSimple;
  std::uint8_t max_channels = 0;  // 0: the planner decides
  friend bool operator==(const TunedWay&, const TunedWay&) = default;
};
// "tree by LL on at most 2 channels"
std::string to_string(const TunedWay& way);

class TunedWays {
 public:
  // From 4 bytes to 64 GiB, by factors of two; larger calls use the last answer.
  static constexpr int kSizes = 35;
  static std::uint64_t bytes_at(int size) { return std::uint64_t{4} << size; }
  // Size as plugins count it: for all-gather and reduce-scatter, all blocks.
  static std::uint64_t bytes_of(const CallRecord& record, int ranks);
  // A call of this size.
  static CallRecord record_at(Collective which, int size, int ranks);

  TunedWay& at(Collective which, int size) { return ways_[index_of(which)][index(size)]; }
  const TunedWay& at(Collective which, int size) const {
    return ways_[index_of(which)][index(size)];
  }
  // Empty for calls without rings.
  TunedWay of(const CallRecord& record, int ranks) const;
  bool empty() const { return ways_ == Ways{}; }

  // The form that ranks exchange. decode() returns nothing for bytes that no rank can have sent.
  Bytes encode() const;
  static std::optional<TunedWays> decode(ByteSpan blob);
  std::uint64_t digest() const;
  // The first call for which two ranks' answers differ: "AllReduce of 1 MiB: tree by LL there, ..."
  std::string difference(const TunedWays& other) const;

 private:
  using Ways = std::array<std::array<TunedWay, kSizes>, kListedFunctions>;
  static std::size_t index_of(Collective which) { return static_cast<std::size_t>(which) - 1; }
  static std::size_t index(int size) { return static_cast<std::size_t>(size); }

  Ways ways_{};
};

}  // namespace rondo::gpu
