// SPDX-License-Identifier: Apache-2.0
// Puts, signals and waits as engine calls.
//
//   run(comm, put(1, window, 8, &value, 1));  run(comm, wait_for(0, 1));
#pragma once

#include "collectives/communicator/communicator.h"

namespace rondo::test {

inline Call put(int peer, int window, std::size_t offset, const void* from, std::size_t count,
                int signal = 0) {
  Call call;
  call.record = {count, Collective::kPut, DataType::kInt32, RedOp::kSum, 0, -1};
  call.send = from;
  call.peer = peer;
  call.window = window;
  call.offset = offset;
  call.signal = signal;
  return call;
}

// Puts raw bytes from any address.
inline Call put_bytes(int peer, int window, std::size_t offset, const void* from, std::size_t bytes,
                      int signal = 0) {
  Call call = put(peer, window, offset, from, bytes, signal);
  call.record.type = DataType::kUint8;
  return call;
}

inline Call signal_to(int peer, int signal = 0) {
  Call call;
  call.record.collective = Collective::kSignal;
  call.peer = peer;
  call.signal = signal;
  return call;
}

inline Call wait_for(int peer, std::uint64_t times, int signal = 0) {
  Call call = signal_to(peer, signal);
  call.record = {times, Collective::kWaitSignal, DataType::kInt8, RedOp::kSum, 0, -1};
  return call;
}

inline Status run(Communicator& comm, const Call& call) { return comm.run({&call, 1}); }

}  // namespace rondo::test
