// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/helpers.h"

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "base/doorbell.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/shared_by_key.h"

namespace rondo::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSliceGrain = 4096;
constexpr auto kSpinFor = std::chrono::microseconds(20);
constexpr auto kStayFor = std::chrono::microseconds(100);  // then sleep
constexpr std::int64_t kLongestSleep = 10'000'000'000;     // ns
constexpr int kTurnsPerLook = 32;                          // at the clock
constexpr int kMaxLeftOut = 63;                            // calls of run()
constexpr int kJoinSpins = 4000;

bool take(std::uint32_t& state, std::uint32_t open, std::uint32_t taken) {
  return std::atomic_ref(state).compare_exchange_strong(open, taken, std::memory_order_acquire,
                                                        std::memory_order_relaxed);
}

}  // namespace

ByteRange slice_of(std::size_t bytes, std::size_t count, std::size_t i) {
  assert(i < count);
  const std::size_t grains = (bytes + kSliceGrain - 1) / kSliceGrain;
  const auto at = [&](std::size_t k) {
    return std::min(bytes, (grains / count * k + std::min(k, grains % count)) * kSliceGrain);
  };
  return {at(i), at(i + 1)};
}

// `state` goes from idle to open (the caller has written the slice), from open to taken (the helper
// runs it) and back to idle. The caller takes an open slice back by the same exchange.
struct alignas(kLineBytes) Helpers::Helper {
  std::uint32_t state = kIdle;
  std::uint8_t parked = 0;
  SliceBody body;
  ByteRange range{};
  alignas(kLineBytes) Thread thread;
};

Helpers::Helpers() : made_in_(fork_generation()) {
  CPU_ZERO(&cores_);
  if (sched_getaffinity(0, sizeof(cores_), &cores_) != 0) CPU_ZERO(&cores_);
}

std::shared_ptr<Helpers> Helpers::of_rank(int number) {
  static auto& all = *new SharedByKey<std::pair<std::uint32_t, int>, Helpers>;
  const auto make = []() -> Result<std::shared_ptr<Helpers>> {
    return std::make_shared<Helpers>();
  };
  return *all.get({fork_generation(), number}, make);
}

Helpers::~Helpers() {
  const bool forked = made_in_ != fork_generation();
  ending_.store(true, std::memory_order_seq_cst);
  if (!forked) ring<DoorbellAtomics>(bell_);
  for (auto& helper : helpers_) {
    if (forked) {
      helper->thread.detach();  // the thread exists only in the parent
    } else {
      helper->thread.join();
    }
  }
}

void Helpers::limit(int threads) {
  assert(threads >= 1);
  int now = limit_.load(std::memory_order_relaxed);
  while (threads < now && !limit_.compare_exchange_weak(now, threads)) {
  }
}

void Helpers::run(std::size_t bytes, const Use& use, const SliceBody& body) {
  if (made_in_ != fork_generation() || busy_.exchange(true, std::memory_order_acquire))
    return body(0, bytes);
  run_slices(bytes, use, body);
  busy_.store(false, std::memory_order_release);
}

void Helpers::run_slices(std::size_t bytes, const Use& use, const SliceBody& body) {
  const int threads =
      std::min({use.threads, limit_.load(std::memory_order_relaxed), kMaxThreads,
                static_cast<int>(std::min<std::size_t>(bytes / kMinSlice, kMaxThreads))});
  if (left_out_ > 0) --left_out_;
  if (threads < 2 || left_out_ > 0) return body(0, bytes);
  if (use.wake) start(threads - 1);
  const int opened = open(bytes, use, body, threads);
  if (opened == 0) return body(0, bytes);
  const auto began = Clock::now();
  const ByteRange own = slice_of(bytes, static_cast<std::size_t>(opened) + 1, 0);
  body(own.begin, own.end);
  bool came = false, late = false;
  for (int i = 0; i < opened; ++i) {
    Helper& helper = *opened_[i];
    if (take(helper.state, kOpen, kIdle)) {
      body(helper.range.begin, helper.range.end);
      continue;
    }
    came = true;
    // The helper is inside its slice, which waits for nothing. If it has lost its core, it may have
    // this one.
    const auto finished = [&] { return HostAtomics::load_acquire(helper.state) == kIdle; };
    for (int turn = 0; turn < kJoinSpins && !finished(); ++turn) cpu_relax();
    if (finished()) continue;
    const auto moved = Clock::now();
    while (!finished()) sched_yield();
    late |= Clock::now() - moved > moved - began;  // longer than this thread's part took
  }
  learn(came && !late);
}

// Gives slices to helpers that are awake, or to all. Returns their number.
int Helpers::open(std::size_t bytes, const Use& use, const SliceBody& body, int threads) {
  assert(threads >= 2 && threads <= kMaxThreads);
  const int usable = std::min(threads - 1, started());
  int count = 0;
  bool asleep = false;
  for (int i = 0; i < usable; ++i) {
    const bool parked = HostAtomics::load_relaxed(helpers_[i]->parked) != 0;
    asleep |= parked;
    if (!parked || use.wake) opened_[count++] = helpers_[i].get();
  }
  for (int i = 0; i < count; ++i) {
    Helper& helper = *opened_[i];
    assert(HostAtomics::load_relaxed(helper.state) == kIdle);
    helper.body = body;
    helper.range =
        slice_of(bytes, static_cast<std::size_t>(count) + 1, static_cast<std::size_t>(i) + 1);
    HostAtomics::store_release(helper.state, std::uint32_t{kOpen});
  }
  if (asleep && use.wake) ring<DoorbellAtomics>(bell_);
  return count;
}

void Helpers::learn(bool helped) {
  leave_out_ = helped ? 0 : std::min(2 * leave_out_ + 1, kMaxLeftOut);
  left_out_ = helped ? 0 : leave_out_ + 1;
}

void Helpers::start(int wanted) {
  assert(wanted >= 1 && wanted < kMaxThreads);
  if (refused_ || started() >= wanted) return;
  opened_.resize(static_cast<std::size_t>(wanted));
  while (started() < wanted) {
    auto helper = std::make_unique<Helper>();
    helpers_.reserve(helpers_.size() + 1);
    auto thread = Thread::start(
        "a helper of a rank", [this, own = helper.get()] { serve(*own); }, [](const Error&) {});
    if (!thread.ok()) {
      refused_ = true;
      RONDO_WARN("{}; copies and sums use {}", thread.error().text,
                 counted(started() + 1, "thread"));
      return;
    }
    helper->thread = std::move(*thread);
    helpers_.push_back(std::move(helper));
    started_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Helpers::serve(Helper& helper) {
  pthread_setname_np(pthread_self(), "rondo-helper");
  if (CPU_COUNT(&cores_) > 0) (void)sched_setaffinity(0, sizeof(cores_), &cores_);
  const auto called = [&] {
    return HostAtomics::load_acquire(helper.state) == kOpen ||
           ending_.load(std::memory_order_seq_cst);
  };
  while (!ending_.load(std::memory_order_relaxed)) {
    const std::uint32_t seen = HostAtomics::load_acquire(bell_);
    const auto began = Clock::now();
    auto stayed = began - began;
    for (int turn = 0; !called() && stayed < kStayFor; ++turn) {
      if (turn % kTurnsPerLook == kTurnsPerLook - 1) stayed = Clock::now() - began;
      if (stayed < kSpinFor) {
        cpu_relax();
      } else {
        sched_yield();
      }
    }
    if (take(helper.state, kOpen, kTaken)) {
      helper.body(helper.range.begin, helper.range.end);
      HostAtomics::store_release(helper.state, std::uint32_t{kIdle});
    } else {
      park<DoorbellAtomics>(helper.parked, bell_, seen, called, kLongestSleep);
    }
  }
}

}  // namespace rondo::host
