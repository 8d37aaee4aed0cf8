// SPDX-License-Identifier: Apache-2.0
// Progress: what a rank on a GPU is doing, in one form for all sources: its kernels
// (kernel_watch.h), its process (process_watch.h), its host (internode_status.h), its caller
// (device_rank.h). Only FailureDetector interprets it.
//
// Cost: plain data; Progress is sent between hosts as raw bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace rondo::gpu {

// How far a rank's kernels are in their launches over connections, including replays of graphs.
struct Progress {
  std::uint64_t traffic = 0;   // changes whenever anything else of the rank has moved
  std::uint64_t launches = 0;  // number of the newest launch; 0: none, or not readable now
  std::uint64_t digest = 0;    // of the calls of all launches up to it
  CallRecord launch;           // call of that launch
  std::uint64_t begun = 0;     // parts of launches (one per channel) that the rank began
  std::uint64_t over = 0;      // parts that it finished; ranks at the same point have equal counts
  CallRecord gave_up_in;       // the call in which a wait in a kernel gave up
  std::uint64_t step = 0;      // step of that wait
  std::uint64_t limit_ns = 0;  // its time limit
  std::uint32_t gave_up = 0;   // 1: a wait gave up
  std::int32_t peer = -1;      // the rank that it waited for
  std::int32_t channel = 0;    // channel of that wait
  std::uint32_t wants_room = 0;  // 1: it waited for the peer to take data; 0: to send data
  // Where they differ: the kernel found a wrong count; wants_room is a cuda::CountFault.
  std::uint64_t sent = 0, taken = 0;
  bool is_inside() const { return over < begun; }
  friend bool operator==(const Progress&, const Progress&) = default;
};
static_assert(sizeof(Progress) == 120);  // no padding

// A wait of a rank's stream or caller for ranks that the source knows.
struct Wait {
  std::string call;          // text; "": waits for others to make the same call
  std::vector<int> awaited;  // ranks that did not arrive, or did not continue
  double limit_seconds = 0;  // without progress; 0: none
  friend bool operator==(const Wait&, const Wait&) = default;
};

// A rank's wait that lasts, for status queries.
struct LongWait {
  int awaited = -1;  // a rank; -1: not known here
  CallRecord call;
  std::int64_t quiet_ns = 0;  // time without any progress
};

inline constexpr const char* kMessageInWords = "a message";  // Wait::call for kernels' messages

}  // namespace rondo::gpu
