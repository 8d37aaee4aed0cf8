// SPDX-License-Identifier: Apache-2.0
// memory_headroom(): how much more memory this process can use before a limit of its control groups
// (v1 and v2) makes the kernel kill it.
//
// Memory that the kernel would reclaim first counts as free: the page cache and, if the group may
// swap, free swap. Other processes of the groups may use it meanwhile. Cost: two small files per
// limited group.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/seconds.h"

namespace rondo::topology {

// In bytes; the maximum uint64 value: no limit. `root` is put before /proc and /sys.
std::uint64_t memory_headroom(const std::string& root = "");

// Caches memory_headroom(): a reading is valid for one second and for 1/16 of the bytes that it
// found. Thread-safe; no lock, so that a forked child can use it.
class HeadroomReadings {
 public:
  explicit HeadroomReadings(std::string root = "") : root_(std::move(root)) {}

  // nullopt: there is room for `bytes` more, which now count as taken. Otherwise returns the bytes
  // that are left. `now`: now_ns() of base/seconds.h.
  std::optional<std::uint64_t> lacks_room_for(std::uint64_t bytes, std::int64_t now = now_ns());

 private:
  const std::string root_;
  // Bytes that may still be taken without a new reading, and the end of its validity (ns). A thread
  // may see values of two readings: harmless, because both are at most one second old.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::int64_t> until_{0};
};

}  // namespace rondo::topology
