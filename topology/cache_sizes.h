// The caches that this process's ranks work in: how large that of a core is (L2), and the one that
// cores share (L3), for the sizes of chunks.
//
// Read from /sys for the first CPU of the affinity mask: what hwloc would say of it, without the
// 4 to 18 ms that hwloc takes to load. Cost: about ten small files, 0.1 ms, once a process. 0:
// unknown, or none.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::topology {

struct CacheSizes {
  std::uint64_t core_bytes = 0;    // L2
  std::uint64_t shared_bytes = 0;  // L3
};

// `root` stands before /sys (tests read the files of a pretended machine).
CacheSizes cache_sizes(const std::string& root = "");

}  // namespace rondo::topology
