// SPDX-License-Identifier: Apache-2.0
#include "transport/proxy/proxy.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kIdleNap = std::chrono::milliseconds(1);
constexpr std::chrono::nanoseconds kReplayNap = std::chrono::microseconds(50);
constexpr std::chrono::milliseconds kLinger{5};  // without naps, after the last progress

}  // namespace

Status Proxy::open() {
  bell_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return bell_ ? ok_status() : fail_errno(errno, "cannot make an eventfd for a GPU's proxy");
}

Status Proxy::start() {
  assert(!runs() && bell_);
  RONDO_TRY(thread_, Thread::start(
                         "a GPU's proxy", [this] { serve(); }, [](const Error&) {}));
  return ok_status();
}

void Proxy::stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  ring();
  thread_.join();
}

void Proxy::forget() {
  if (thread_.joinable()) thread_.detach();
}

void Proxy::ring() {
  if (!naps_.load(std::memory_order_seq_cst) && !stops()) return;
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof(one));
}

bool Proxy::turn() {
  bool moved = false;
  for (Entry& entry : tasks_) {
    if (entry.under_way) continue;
    entry.under_way = true;
    moved |= entry.task->progress();
    entry.under_way = false;
  }
  return moved;
}

bool Proxy::nap(std::chrono::nanoseconds at_most) {
  assert(bell_ && at_most.count() > 0);
  naps_.store(true, std::memory_order_seq_cst);
  net::Sleeper sleeper;
  sleeper.add_fd(bell_.get());
  const bool quiet = std::all_of(tasks_.begin(), tasks_.end(),
                                 [&](const Entry& entry) { return sleeper.add(*entry.task); });
  if (quiet) naps_taken_.fetch_add(1, std::memory_order_relaxed);
  const bool rung = quiet && sleeper.sleep(at_most);
  naps_.store(false, std::memory_order_relaxed);
  std::uint64_t rings = 0;
  if (rung) (void)!::read(bell_.get(), &rings, sizeof(rings));
  return rung;
}

bool Proxy::any_busy() const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [](const Entry& entry) { return entry.task->is_busy(); });
}

void Proxy::serve() {
  DeviceScope::keep_device_of_thread();
  Clock::time_point active = Clock::now();
  while (!stops()) {
    if (turn()) {
      active = {};
      continue;
    }
    const auto now = Clock::now();
    if (active == Clock::time_point() || any_busy()) active = now;
    if (now - active < kLinger) {
      sched_yield();
      continue;
    }
    if (nap(replays_.load(std::memory_order_relaxed) ? kReplayNap : kIdleNap)) active = {};
  }
  for (Entry& entry : tasks_) entry.task->finish();
}

}  // namespace rondo::gpu
