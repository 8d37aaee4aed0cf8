// One rank of what rondo tune measures: a process that makes one kind of call again and again.
//
// Times are of blocks of calls, so that reading the clock costs nothing; rank 0 writes them.
#pragma once

#include <string>

namespace rondo::cli {

// "all_reduce 4096 0.01 FILE": the collective, the largest size in bytes, seconds for a size, and
// where rank 0 writes a line "bytes count us" for each size. The exit status.
int tune_rank(const std::string& collective, std::uint64_t most_bytes, double seconds,
              const std::string& file);

}  // namespace rondo::cli
