// SPDX-License-Identifier: Apache-2.0
// Slices: processes that share an emulated device take turns on it, as without MPS.
//
// File locks (one a user) show which process runs kernels on a device and which one wants to; the
// system releases them when a process dies. A slice that a kernel only spins through, while another
// process waits for the device, is counted; a kernel with too many is a violation, because it may
// be waiting for the process that it keeps from running. Cost: two system calls a slice.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "tests/simt/device/config.h"
#include "tests/simt/machine/gang.h"

namespace rondo::simt {

class Slices {
 public:
  explicit Slices(const Config& config);
  ~Slices();
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  // Bit mask of the devices on which kernels of this process may run now.
  std::uint32_t allowed(const Gang& gang);
  // Reports the result of a turn; ends slices whose time is up.
  void used(Gang& gang, Worker::Turn turn);

 private:
  using Clock = std::chrono::steady_clock;
  struct Turns {
    bool wants = false, holds = false;
    bool idle = true;  // no progress in this slice
    int wasted = 0;    // consecutive slices without progress
    Clock::time_point begun, rests_until;
  };
  bool lock(int device, int byte, short kind) const;
  bool others_want(int device) const;

  const int devices_;
  const int max_wasted_;
  int file_ = -1;
  std::array<Turns, kMaxDevices> turns_;
};

}  // namespace rondo::simt
