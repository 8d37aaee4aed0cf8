// Progress: what a rank on a GPU is doing, in one form for all sources: its kernels
// (kernel_watch.h), its process (process_watch.h), its host (internode_status.h), its caller
// (device_rank.h). Only FailureDetector draws conclusions.
//
// Cost: plain words; Progress travels between hosts as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace rondo::gpu {

// How far the kernels of a rank are in their launches over connections, replays of graphs included.
struct Progress {
  std::uint64_t traffic = 0;     // differs whenever anything else of the rank has moved
  std::uint64_t launches = 0;    // number of the newest launch; 0: none, or not to be read now
  std::uint64_t digest = 0;      // of all launches' calls up to it
  CallRecord launch;             // its own call
  std::uint64_t begun = 0;       // parts of launches, a channel each, that the rank has begun,
  std::uint64_t over = 0;        // and those that are over; ranks equally far have equal counts
  CallRecord gave_up_in;         // where a wait in a kernel gave up:
  std::uint64_t step = 0;        //
  std::uint64_t limit_ns = 0;    // after so long,
  std::uint32_t gave_up = 0;     // 1: it did,
  std::int32_t peer = -1;        // waiting for this rank
  std::int32_t channel = 0;      //
  std::uint32_t wants_room = 0;  // 1: to take data; else to send some
  bool is_inside() const { return over < begun; }
  friend bool operator==(const Progress&, const Progress&) = default;
};
static_assert(sizeof(Progress) == 104);  // nothing between the fields

// A wait of a rank's stream or caller, whose source knows for whom it is.
struct Wait {
  std::string call;          // in words; "": that others make the same call
  std::vector<int> awaited;  // ranks that have not come, or not gone on
  double limit_seconds = 0;  // without progress; 0: none
  friend bool operator==(const Wait&, const Wait&) = default;
};

inline constexpr const char* kMessageInWords = "a message";  // Wait::call of one, by kernels

}  // namespace rondo::gpu
