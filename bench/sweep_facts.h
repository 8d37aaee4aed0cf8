// SPDX-License-Identifier: Apache-2.0
// Facts that a sweep needs before it starts: time, host name, and buffer sizes.
#pragma once

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>

#include "bench/lane.h"
#include "bench/options.h"

namespace rondo::bench {

inline std::string time_of_day() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr)));
}

// One word. NCCL_HOSTID, which the library uses to tell hosts apart, overrides the system's name.
inline std::string host_name() {
  if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr && *id != '\0') {
    std::string word = id;
    std::replace_if(
        word.begin(), word.end(), [](unsigned char c) { return std::isspace(c) != 0; }, '_');
    return word;
  }
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// What is measured: "4 B float sum in place".
inline std::string words_of(const Test& test, std::size_t bytes) {
  return fmt::format("{} B {} {} {}", bytes, info(test.type).name, name(test.op),
                     test.in_place ? "in place" : "out of place");
}

struct Needs {
  std::size_t send = 0, recv = 0;  // bytes, maximum over the ranks
};

// Raises `needs` to those of calls of `ranks` ranks.
inline void raise_needs(const Options& options, int ranks, Needs* needs) {
  for (const std::size_t bytes : sweep_sizes(options))
    for (const ncclDataType_t type : options.types)
      for (int rank : {0, ranks - 1})
        for (int root : {rank, (rank + 1) % ranks}) {
          const Layout layout =
              layout_of({options.kind, type, rank, ranks, root, options.spread}, bytes);
          const std::size_t element = info(type).size;
          needs->send = std::max(needs->send, layout.send_count * element);
          needs->recv = std::max(needs->recv, layout.recv_count * element);
          if (info(options.kind).in_place)
            needs->recv = std::max(needs->recv, layout.in_place_count * element);
        }
}

// groups: number of ranks of each group. Groups with fewer ranks have larger blocks per rank.
inline Needs needs_of(const Options& options, const std::set<int>& groups) {
  Needs needs;
  for (const int ranks : groups) raise_needs(options, ranks, &needs);
  return needs;
}

inline int exit_code_of(StatusCode status) {
  return status == StatusCode::kTimeout   ? kTimedOut
         : status == StatusCode::kSuccess ? kOk
                                          : kLibraryError;
}

}  // namespace rondo::bench
