// How much more memory this process's control groups (v1 and v2) let it use before the kernel
// kills.
//
// What the kernel could take back first counts as free: the page cache of files and, where a group
// may swap, swap. Other processes of the groups may use it meanwhile. Cost: two small files a
// limited group.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::topology {

// Bytes; the largest number where there is no limit. `root` stands before /proc and /sys.
std::uint64_t memory_headroom(const std::string& root = "");

}  // namespace rondo::topology
