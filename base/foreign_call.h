// SPDX-License-Identifier: Apache-2.0
// Records of calls that another library runs (collectives/watch). NCCL does not tell a profiler
// plugin the reduction operation, so the record of such a call has none.
//
// A call of Rondo never leaves out all algorithms, so this value of `excluded` marks the others.
#pragma once

#include "base/types.h"

namespace rondo {

inline constexpr unsigned kForeignCall = CallRecord::kInWindows - 1;  // of CallRecord::excluded

inline CallRecord foreign_call(Collective which, DataType type, std::uint64_t count, int root) {
  CallRecord record;
  record.collective = which;
  record.type = type;
  record.count = count;
  record.root = root;
  record.excluded = kForeignCall;
  return record;
}
constexpr bool is_foreign(const CallRecord& record) { return record.excluded == kForeignCall; }

}  // namespace rondo
