// How much more memory this process's control groups (v1 and v2) let it use before the kernel
// kills.
//
// What the kernel could take back first counts as free: the page cache of files and, where a group
// may swap, swap. Other processes of the groups may use it meanwhile. Cost: two small files a
// limited group.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/seconds.h"

namespace rondo::topology {

// Bytes; the largest number where there is no limit. `root` stands before /proc and /sys.
std::uint64_t memory_headroom(const std::string& root = "");

// Readings of it that serve for a second, and for the sixteenth part of what was found. From any
// thread; no lock, so that a forked child can go on with it.
class HeadroomReadings {
 public:
  explicit HeadroomReadings(std::string root = "") : root_(std::move(root)) {}

  // nullopt if there is room for `bytes` more, which then count as taken; otherwise the bytes that
  // are left. `now`: of base/seconds.h.
  std::optional<std::uint64_t> lacks_room_for(std::uint64_t bytes, std::int64_t now = now_ns());

 private:
  const std::string root_;
  // What may still be taken without reading anew, and until when. What a thread finds of two
  // readings does no harm: both are of this second.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::int64_t> until_{0};
};

}  // namespace rondo::topology
