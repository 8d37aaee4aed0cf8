// One rank of what rondo tune measures: a process that makes one kind of call again and again.
//
// Times are of blocks of calls, so that reading the clock costs nothing; rank 0 writes them.
#pragma once

#include <string>

namespace rondo::cli {

// The collective by bench's name, sizes up to most_bytes, seconds for each; rank 0 writes a line
// "bytes count us" for each size to the file. The exit status; errors go to stderr.
int tune_rank(const std::string& collective, std::uint64_t most_bytes, double seconds,
              const std::string& file);

}  // namespace rondo::cli
