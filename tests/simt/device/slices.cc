// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/slices.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/simt/machine/violation.h"

namespace rondo::simt {
namespace {

// Lock bytes of the file, per device: of the process that runs there, and of one that wants to.
constexpr int kRuns = 0, kWants = 1;
constexpr auto kSlice = std::chrono::milliseconds(2);
constexpr auto kRest = std::chrono::microseconds(500);  // pause for another process to take over

}  // namespace

Slices::Slices(const Config& config) : devices_(config.devices), max_wasted_(config.slices) {
  const char* const machine = std::getenv("RONDO_SIMT_MACHINE");
  const std::string path =
      fmt::format("/tmp/rondo-simt-{}-{}", getuid(), machine == nullptr ? "0" : machine);
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) std::perror(("emulated GPU: " + path).c_str());
}

Slices::~Slices() {
  if (file_ >= 0) close(file_);
}

bool Slices::lock(int device, int byte, short kind) const {
  struct flock range {};
  range.l_type = kind, range.l_whence = SEEK_SET, range.l_start = 2 * device + byte;
  range.l_len = 1;
  return fcntl(file_, F_OFD_SETLK, &range) == 0;
}

bool Slices::others_want(int device) const {
  struct flock range {};
  range.l_type = F_WRLCK, range.l_whence = SEEK_SET, range.l_start = 2 * device + kWants;
  range.l_len = 1;
  return fcntl(file_, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

std::uint32_t Slices::allowed(const Gang& gang) {
  if (file_ < 0) return ~0u;
  std::uint32_t devices = 0;
  for (int d = 0; d < devices_; ++d) {
    Turns& turns = turns_[static_cast<std::size_t>(d)];
    if (!gang.busy(d)) continue;
    if (!turns.wants) turns.wants = lock(d, kWants, F_RDLCK);
    if (!turns.holds && Clock::now() >= turns.rests_until && lock(d, kRuns, F_WRLCK)) {
      turns.holds = true, turns.idle = true;
      turns.begun = Clock::now();
    }
    if (turns.holds) devices |= 1u << d;
  }
  return devices;
}

void Slices::used(Gang& gang, Worker::Turn turn) {
  if (file_ < 0) return;
  for (int d = 0; d < devices_; ++d) {
    Turns& turns = turns_[static_cast<std::size_t>(d)];
    if (!turns.wants) continue;
    if (!gang.busy(d)) {
      if (turns.holds) lock(d, kRuns, F_UNLCK);
      lock(d, kWants, F_UNLCK);
      turns = {};
      continue;
    }
    if (!turns.holds) continue;
    if (turn == Worker::Turn::kMoved) turns.idle = false;
    if (Clock::now() - turns.begun < kSlice) continue;
    if (!others_want(d)) {
      turns.begun = Clock::now(), turns.idle = true;
      continue;
    }
    turns.wasted = turns.idle ? turns.wasted + 1 : 0;
    lock(d, kRuns, F_UNLCK);
    turns.holds = false;
    turns.rests_until = Clock::now() + kRest;
    if (turns.wasted <= max_wasted_) continue;
    report(Violation::kForeignSpin,
           fmt::format("a kernel of process {} has spun for {} time slices on device {} while "
                       "another process waits for the device",
                       getpid(), turns.wasted, d));
    gang.drop_device(d);
  }
}

}  // namespace rondo::simt
