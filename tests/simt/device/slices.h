// Slices: processes that share an emulated device take turns on it, as without MPS.
//
// Locks of a file (one a user) say who runs kernels on a device and who would like to; the system
// takes them back when a process dies. A slice that a kernel spends only spinning, while another
// process waits for the device, is counted; a kernel with too many is a violation: what it waits
// for may be what it keeps from running. Cost: two system calls a slice.
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

  // The devices (bit d) on which kernels of this process may run now.
  std::uint32_t allowed(const Gang& gang);
  // What came of it: ends slices whose time is over.
  void used(Gang& gang, Worker::Turn turn);

 private:
  using Clock = std::chrono::steady_clock;
  struct Turns {
    bool wants = false, holds = false;
    bool idle = true;  // nothing moved in this slice
    int wasted = 0;    // slices in a row
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
