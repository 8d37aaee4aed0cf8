// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/fault_kinds.h"

#include <unistd.h>

#include <cstdlib>

namespace rondo::test {
namespace {

constexpr bool kByDeadline = true;  // the deadline ends the call
constexpr bool kBefore = false;     // the deadline must not be what ends the call
constexpr std::size_t kCount = 5000;

ncclResult_t sleep(FaultRank&) { sleep_until_killed(); }

ncclResult_t absent(FaultRank& self) {
  if (!self.last()) return self.sum(kCount);
  for (int other = 0; other < kFaultRanks - 1; ++other) self.wait_for(other);
  return self.sum(kCount);
}

ncclResult_t sender_absent(FaultRank& self) {
  if (self.rank == 0) return self.receive(kFaultRanks - 1, kCount);
  self.wait_for(0);
  return self.sum(kCount);
}

ncclResult_t cycle(FaultRank& self) { return self.receive((self.rank + 1) % kFaultRanks, kCount); }

ncclResult_t group(FaultRank& self) {
  ncclGroupStart();
  for (const std::size_t count : {kCount, self.last() ? kCount - 1 : kCount, kCount})
    ncclAllReduce(self.bytes, self.bytes, count, ncclFloat32, ncclSum, self.comm, self.seat.stream);
  return self.settled(ncclGroupEnd());
}

ncclResult_t message_too_long(FaultRank& self) {
  if (self.rank == 0) return self.receive(kFaultRanks - 1, 10);
  if (self.last()) return self.send(0, 20);
  return self.sum(kCount);
}

}  // namespace

FaultRank::FaultRank(NcclRank& seat) : seat(seat), rank(seat.rank) {
  seat.prepare();
  if (seat.on_gpu()) {
    EXPECT_EQ(gpu_api()->allocate(&bytes, kFaultBytes), kGpuSuccess);
  } else {
    bytes = std::calloc(1, kFaultBytes);
  }
}

void FaultRank::wait_for(int other) const {
  const auto& outcome = seat.board.seats[other].reported;
  wait_until([&] { return outcome.load() != 0; });
}

ncclResult_t FaultRank::settled(ncclResult_t called) const {
  if (called != ncclSuccess) return called;
  if (seat.on_gpu()) {
    EXPECT_EQ(gpu_api()->synchronize_stream(seat.stream), kGpuSuccess);
  }
  ncclResult_t seen = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &seen);
  return asked == ncclSuccess ? seen : asked;
}

ncclResult_t FaultRank::sum(std::size_t count, ncclDataType_t type, ncclRedOp_t op) const {
  return settled(ncclAllReduce(bytes, bytes, count, type, op, comm, seat.stream));
}

ncclResult_t FaultRank::gather(std::size_t count) const {
  char* const out = static_cast<char*>(bytes) + kFaultBytes / 2;
  return settled(ncclAllGather(bytes, out, count, ncclFloat32, comm, seat.stream));
}

ncclResult_t FaultRank::broadcast(std::size_t count, int root) const {
  return settled(ncclBroadcast(bytes, bytes, count, ncclFloat32, root, comm, seat.stream));
}

ncclResult_t FaultRank::send(int peer, std::size_t count) const {
  return settled(ncclSend(bytes, count, ncclFloat32, peer, comm, seat.stream));
}

ncclResult_t FaultRank::receive(int peer, std::size_t count) const {
  return settled(ncclRecv(bytes, count, ncclFloat32, peer, comm, seat.stream));
}

const std::vector<FaultKind>& fault_kinds() {
  using Self = FaultRank;
  static const std::vector<FaultKind> kKinds = {
      {"another collective", kBefore,
       [](Self& self) { return self.last() ? self.gather(kCount) : self.sum(kCount); }},
      {"another count", kBefore,
       [](Self& self) { return self.sum(self.last() ? kCount - 1 : kCount); }},
      {"another type", kBefore,
       [](Self& self) { return self.sum(kCount, self.last() ? ncclInt32 : ncclFloat32); }},
      {"another operation", kBefore,
       [](Self& self) { return self.sum(kCount, ncclFloat32, self.last() ? ncclMax : ncclSum); }},
      {"another root", kBefore,
       [](Self& self) { return self.broadcast(kCount, self.last() ? 1 : 0); }},
      {"another second call of a group", kBefore, group},
      {"a message that is too long", kBefore, message_too_long, false},
      {"a rank that comes too late", kByDeadline, absent},
      {"a sender that comes too late", kByDeadline, sender_absent, false},
      {"receives in a cycle", kByDeadline, cycle, false},
      {"a rank that aborts", kBefore,
       [](Self& self) {
         if (!self.last()) return self.sum(kCount);
         const ncclComm_t comm = std::exchange(self.comm, nullptr);
         return ncclCommAbort(comm);
       }},
      {"a rank that destroys", kBefore,
       [](Self& self) {
         if (!self.last()) return self.sum(kCount);
         const ncclComm_t comm = std::exchange(self.comm, nullptr);
         return ncclCommDestroy(comm);
       }},
      {"a rank that is killed", kBefore,
       [](Self& self) { return self.last() ? sleep(self) : self.sum(kCount); }, true, true, true},
      {"a sender that is killed", kBefore,
       [](Self& self) { return self.last() ? sleep(self) : self.receive(kFaultRanks - 1, kCount); },
       true, true, true},
      {"a rank that exits", kBefore,
       [](Self& self) {
         if (self.last()) _exit(0);
         return self.sum(kCount);
       },
       true, false, true},
  };
  return kKinds;
}

}  // namespace rondo::test
