// SPDX-License-Identifier: Apache-2.0
// Reads what peers of this host write: their records, their messages, and whether they ended.
//
// Cost: a few loads; has_ended() is one system call.
#pragma once

#include <poll.h>

#include <bit>
#include <cstdint>
#include <string>

#include "base/atomics.h"
#include "base/types.h"
#include "transport/shm/host_group.h"

namespace rondo {

inline bool has_ended(const shm::PeerProcess& process) {
  if (!process.neighbour) return false;
  pollfd entry{process.neighbour->pidfd(), POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

// Records that other ranks may read or write concurrently: two halves, each read and written
// atomically.
struct Halves {
  std::uint64_t first, second;
};
static_assert(sizeof(Halves) == sizeof(CallRecord));

inline CallRecord load_record(const CallRecord& from) {
  const auto& halves = reinterpret_cast<const Halves&>(from);
  return std::bit_cast<CallRecord>(
      Halves{HostAtomics::load_relaxed(halves.first), HostAtomics::load_relaxed(halves.second)});
}

inline void store_record(CallRecord& to, const CallRecord& record) {
  auto& halves = reinterpret_cast<Halves&>(to);
  const auto from = std::bit_cast<Halves>(record);
  HostAtomics::store_relaxed(halves.first, from.first);
  HostAtomics::store_relaxed(halves.second, from.second);
}

inline bool is_message(const CallRecord& record) {
  return record.collective >= Collective::kSend;  // between two ranks: messages, puts, signals
}

}  // namespace rondo
