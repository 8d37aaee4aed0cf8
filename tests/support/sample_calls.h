// SPDX-License-Identifier: Apache-2.0
// Calls of every collective with their own buffers, for tests that do not check the data.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/context/call.h"

namespace rondo::test {

inline bool has_root(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

// One rank's call of int32 elements, with guard words around both buffers.
class SampleCall {
 public:
  static constexpr std::size_t kGuard = 64;
  static constexpr int kFill = 0x5a5a5a5a;

  SampleCall(Collective collective, std::size_t count, int ranks, int root = 0,
             DataType type = DataType::kInt32, RedOp op = RedOp::kSum) {
    // The larger side of any collective has one block per rank.
    const std::size_t words =
        (count * static_cast<std::size_t>(ranks) * size_of(type) + sizeof(int) - 1) / sizeof(int);
    in_.assign(words + 2 * kGuard, 1);
    out_.assign(words + 2 * kGuard, 0);
    for (std::vector<int>* buffer : {&in_, &out_})
      for (std::size_t i = 0; i < kGuard; ++i)
        (*buffer)[i] = (*buffer)[buffer->size() - 1 - i] = kFill;
    call.record = {count, collective, type, op, 0, has_root(collective) ? root : -1};
    call.send = in_.data() + kGuard;
    call.receive = out_.data() + kGuard;
  }

  int* input() { return in_.data() + kGuard; }
  const int* output() const { return out_.data() + kGuard; }
  bool guards_intact() const {
    for (const std::vector<int>* buffer : {&in_, &out_})
      for (std::size_t i = 0; i < kGuard; ++i)
        if ((*buffer)[i] != kFill || (*buffer)[buffer->size() - 1 - i] != kFill) return false;
    return true;
  }

  Call call;

 private:
  std::vector<int> in_, out_;
};

inline Call message(Collective way, int peer, void* buffer, std::size_t count,
                    DataType type = DataType::kInt32) {
  Call call;
  call.record = {count, way, type, RedOp::kSum, 0, -1};
  call.peer = peer;
  call.send = way == Collective::kSend ? buffer : nullptr;
  call.receive = way == Collective::kRecv ? buffer : nullptr;
  return call;
}

}  // namespace rondo::test
