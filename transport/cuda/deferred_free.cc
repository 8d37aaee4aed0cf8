// SPDX-License-Identifier: Apache-2.0
#include "transport/cuda/deferred_free.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/poll_until.h"
#include "base/process.h"
#include "base/thread.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr double kFreeSeconds = 1;  // a free can wait for the program, and that for this call
constexpr std::chrono::milliseconds kBetweenTries{20};

struct DeferredFree {
  std::function<void()> free;
  int device;  // that was current when it was deferred
};

struct Deferred {
  const std::uint32_t made_in = fork_generation();
  std::mutex mutex;
  std::map<const UnfinishedWork*, std::function<bool()>> watched;
  std::vector<std::function<bool()>> left;  // work of owners that have ended
  std::vector<DeferredFree> frees;          // in the order of their registration
  std::atomic<std::size_t> waiting{0};      // deferred frees that have not finished
  bool has_thread = false;                  // that tries again and again until none waits
  std::recursive_timed_mutex run;           // of the thread that runs deferred frees
  bool knows_all = true;                    // false: no memory was left to store an entry of `left`
  std::set<const EnqueueFlag*> flags;
  std::atomic<int> freeing{0};  // number of threads that free or check if they can

  // True in a forked child: the mutex can stay locked without limit, and the device is unusable.
  bool is_forked() const { return made_in != fork_generation(); }
  // Called with the mutex.
  bool is_idle() {
    std::erase_if(left, [](const auto& is_over) { return is_over(); });
    return knows_all && left.empty() &&
           std::all_of(watched.begin(), watched.end(),
                       [](const auto& work) { return work.second(); });
  }
  // Called with the mutex. True: this thread frees now and must make a Free. A thread that raises a
  // flag checks `freeing` next, so one of the two sees the other. Work that was enqueued before a
  // flag was lowered already counts as unfinished at that time.
  bool begin_free() {
    freeing.fetch_add(1);
    const bool may = std::none_of(flags.begin(), flags.end(),
                                  [](const EnqueueFlag* flag) { return flag->is_raised(); }) &&
                     is_idle();
    if (!may) freeing.fetch_sub(1);
    return may;
  }
};
struct Free {
  std::atomic<int>& freeing;
  ~Free() {
    [[maybe_unused]] const int before = freeing.fetch_sub(1);
    assert(before > 0);
  }
};

Deferred& deferred() {
  static auto& all = *new Deferred;  // never destroyed: memory may outlive main()
  return all;
}

// The device is made current without a scope: a scope would end by making device 0 current, which
// may create a context there.
void try_until_none_waits() {
  Deferred& all = deferred();
  for (;;) {
    std::this_thread::sleep_for(kBetweenTries);
    int device = kHostRank;
    {
      std::lock_guard lock(all.mutex);
      if (all.frees.empty()) {
        all.has_thread = false;
        return;
      }
      device = all.frees.front().device;
    }
    if (device != kHostRank) gpu_api()->set_device(device);
    free_deferred();
  }
}

// Called with the mutex. Without a thread, free_deferred() is left.
void begin_thread(Deferred& all) {
  if (std::exchange(all.has_thread, true)) return;
  auto started = Thread::start("freeing memory of a GPU", try_until_none_waits, [](const Error&) {
    std::lock_guard lock(deferred().mutex);
    deferred().has_thread = false;
  });
  if (started.ok())
    started->detach();
  else
    all.has_thread = false;
}

}  // namespace

EnqueueFlag::EnqueueFlag() {
  Deferred& all = deferred();
  std::lock_guard lock(all.mutex);
  all.flags.insert(this);
}

EnqueueFlag::~EnqueueFlag() {
  Deferred& all = deferred();
  if (all.is_forked()) return;
  assert(!is_raised());
  std::lock_guard lock(all.mutex);
  all.flags.erase(this);
}

void EnqueueFlag::raise() {
  std::atomic<int>& freeing = deferred().freeing;
  raised_.fetch_add(1);
  if (freeing.load() == 0) return;
  const auto deadline = seconds_from_now(kFreeSeconds);
  bool in_time = true;
  do {
    raised_.fetch_sub(1);
    in_time = poll_until([&] { return freeing.load() == 0; }, deadline);
    raised_.fetch_add(1);
  } while (in_time && freeing.load() != 0);
}

UnfinishedWork::~UnfinishedWork() {
  Deferred& all = deferred();
  if (all.is_forked()) return;
  std::lock_guard lock(all.mutex);
  all.watched.erase(this);
}

void UnfinishedWork::watch(std::function<bool()> is_over) {
  Deferred& all = deferred();
  std::lock_guard lock(all.mutex);
  all.watched[this] = std::move(is_over);
}

void UnfinishedWork::leave(const std::function<std::function<bool()>()>& take) noexcept {
  Deferred& all = deferred();
  if (all.is_forked()) return;
  std::lock_guard lock(all.mutex);
  all.watched.erase(this);
  const auto note = [&] { return all.left.push_back(take()), ok_status(); };
  (void)guarded("leaving work on a GPU", note, [&](const Error&) { all.knows_all = false; }).ok();
}

void hand_over(std::function<void()> free) {
  Deferred& all = deferred();
  if (all.is_forked()) {
    new std::function<void()>(std::move(free));  // leaked: it can own objects that must stay
    return;
  }
  const RelaxedCapture relaxed;
  {
    std::lock_guard lock(all.mutex);
    if (!all.begin_free()) {
      int device = kHostRank;
      if (gpu_api() != nullptr && gpu_api()->get_device(&device) != kGpuSuccess) device = kHostRank;
      all.frees.push_back({std::move(free), device});
      all.waiting.fetch_add(1);
      return begin_thread(all);
    }
  }
  const Free begun{all.freeing};
  free();
}

void free_deferred(double patient_seconds) noexcept {
  Deferred& all = deferred();
  if (all.waiting == 0 || all.is_forked()) return;
  (void)guarded("freeing memory of a GPU", [&] {
    // Another thread that frees now may wait for the program, and that for this call.
    const std::unique_lock alone(all.run, std::chrono::duration<double>(kFreeSeconds));
    if (!alone.owns_lock()) return ok_status();
    const RelaxedCapture relaxed;
    std::vector<DeferredFree> now;
    const auto take = [&] {
      std::lock_guard lock(all.mutex);
      if (!all.begin_free()) return false;
      now.swap(all.frees);
      return true;
    };
    if (!poll_until(take, seconds_from_now(patient_seconds))) return ok_status();
    const Free begun{all.freeing};
    for (DeferredFree& one : now) {
      std::optional<DeviceScope> scope;
      if (one.device != kHostRank) scope.emplace(one.device);
      one.free();
      one.free = nullptr;
      all.waiting.fetch_sub(1);
    }
    return ok_status();
  }).ok();
}

std::size_t deferred_frees() { return deferred().waiting; }

}  // namespace rondo::gpu
